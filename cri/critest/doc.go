// Package critest is the conformance suite for container runtimes. It tests the behaviour that
// callers of the Container Runtime Interface may rely on, on any implementation of
// cri.RuntimeService and cri.ImageService. cri/fake in process and over gRPC, containerd 1.6 and
// containerd 2.2 pass it.
//
// # Testing a runtime
//
//	func TestMyRuntime(t *testing.T) {
//		critest.Run(t, critest.Config{Parallel: 8, Start: func(t *testing.T) critest.Subject {
//			endpoint := cri.ClientConfig{Endpoint: os.Getenv("MY_RUNTIME")}
//			runtime, err := cri.DialRuntime(t.Context(), endpoint)
//			require.NoError(t, err)
//			images, err := cri.DialImages(t.Context(), endpoint)
//			require.NoError(t, err)
//			t.Cleanup(func() { _, _ = runtime.Close(), images.Close() })
//			return critest.Subject{Runtime: runtime, Images: images, Image: "docker.io/library/busybox:1.36"}
//		}})
//	}
//
// Each case is a subtest named by its rule, such as "Order/StartContainer of an exited container is
// refused", so that -run selects it and a failure reads as a sentence. The last log line counts the
// cases and lists optional calls that the runtime lacks:
//
//	critest: containerd 1.6.20: 343 cases: 317 passed, 0 failed, 26 skipped; it lacks GetContainerEvents, ...
//
// Cases use sandboxes of their own and remove them, so the runtime may be in use. They need the
// tools of busybox in Subject.Image, and log folders and mounts below the test's temporary folder,
// which the runtime must see under the same path. A case about an optional call is skipped if the
// call is Unimplemented. Subject has fields for further abilities of a runtime.
//
// # A runtime in memory
//
// A runtime without processes and sockets runs the suite in virtual time, each case in a bubble:
// Config.Around is then synctest.Test. It must understand the suite's commands; cri/fake takes
// Programs and Ports for this. Its AnyImage stays false, because some cases need absent images. The
// Example_wrapper is a complete test of a runtime that wraps the fake.
//
// # Sessions
//
// A case about an exec, attach or port-forward session needs a client for the URLs that the runtime
// returns: Subject.Sessions, implemented by the Client of cri/streams (a separate module, because
// it needs SPDY and WebSocket). Without a client such cases are skipped with "no session client".
// That package's Server gives the fake such sessions.
//
// # Owners
//
// The owner of a pod is a label of its sandbox and containers. Group List proves for each runtime
// that labels are returned whole by lists and select exactly; group Sandbox proves it for statuses.
//
// # Guarantees for callers
//
// The suite asserts behaviour shared by all measured runtimes. Where runtimes differ it asserts the
// common part, and the fake implements the strictest one, so that callers tested on the fake work
// on all of them:
//
//	                                            containerd 1.6     containerd 2.2     a caller may rely on          cri/fake
//	codes of refused calls                      Unknown            Unknown            an error, other than          FailedPrecondition, AlreadyExists
//	                                                                                  NotFound; never the code      or InvalidArgument
//	stop of an unknown container or sandbox     NotFound           works              works, or NotFound            NotFound
//	a kill while the container ends by itself   may fail once      works              repeat it                     works
//	removal of an unknown one                   works              works              works, or NotFound            works
//	empty ids                                   Unknown            Unknown            an error, from every call     InvalidArgument
//	part of an id                               finds the object   finds the object   unspecified: use whole ids    NotFound, empty list
//	create in a stopped sandbox                 NotFound           works, and the     no container runs: create or  refused
//	                                                               start is refused   start is an error
//	start in a sandbox that has stopped         StartError, 128    StartError, 128    it does not run               StartError, 128
//	update of an exited container               works              works              unspecified                   refused
//	log reopened when not running               refused            refused            refused                       refused
//	statistics when not running                 Unknown            Unknown            unspecified                   refused
//	sandbox statistics without cgroup_parent    Unknown            Unknown            unspecified                   works
//	update of sandbox resources                 Unimplemented      Unknown            unspecified                   works
//	create without a sandbox config             THE RUNTIME ENDS   Unknown            unspecified: see              InvalidArgument
//	                                                                                  Subject.Hardened
//	metadata without a name, namespace, uid     works              works              a response                    a name is required
//	label over 4096 bytes                       InvalidArgument    InvalidArgument    a response, never a hang      InvalidArgument
//	annotation of 1 MiB                         works              works              a response, never a hang      works
//	a host name of 300 bytes                    Unknown            Unknown            a response                    Unknown
//	ContainerStatus.image                       full name          full name          a name of the image           full name
//	ContainerStatus.image_ref                   repository digest  repository digest  not empty, equal for equal    repository digest
//	                                                                                  images of a status
//	Container.image_ref (list)                  image id           image id           not empty                     image id
//	image_id                                    absent             absent             absent or right               present
//	user                                        absent             present            absent or right               present
//	stop_signal in the config                   ignored            ignored            as shown in the status        honoured
//	started_at and finished_at                  in order           may cross when a   both are after created_at;    in order
//	                                                               program is short   in order after a stop
//	PodSandboxStatus.timestamp                  absent             absent             unspecified                   present
//	namespaces of a default sandbox             options            no options         getters                       options
//	addresses of a stopped sandbox              removed            removed            removed                       removed
//	state of a sandbox just stopped             NOTREADY           may be READY yet   NOTREADY soon                 NOTREADY
//	GetContainerEvents, RuntimeConfig,          Unimplemented      works              either; see the last line     works
//	metrics
//	CheckpointContainer                         Unimplemented      needs criu         either                        Config.Checkpoints
//	ListImages with a filter                    ignores it         ignores it         contains the requested image  ignores it
//	ExecSync with a cancelled context           may run on         may run on         unspecified: give a timeout   is killed
//	ExecSync whose child keeps the output open  waits for it       waits for it       unspecified: give ctx a       returns
//	                                                                                  deadline
//	exec in an exited container                 NotFound           NotFound           an error, not an exit code    FailedPrecondition
//	a list of statistics during a removal       NotFound           works              retry                         works
//	created and exited containers in it         present, empty     present, empty     no CPU time for containers    present, empty
//	                                                                                  that do not run
//	a start that fails, as events               -                  created, deleted   no started event              created, deleted
//	"\r" at the end of a line in the log        dropped            dropped            unspecified                   dropped
//	image_ref after the image is removed        image id           image id           not empty                     image id
//	image after the image is removed            as in the config   as in the config   not empty                     as in the config
//
// The suite does not test conditions that no caller can rely on: texts of errors and messages, the
// order of lists, the delay of exits, the winner of a race.
//
// # Requirements
//
//   - The user may write files of the runtime: log files and mounts belong to the runtime and lie in
//     temporary folders of the test.
//   - The runtime is ready and has a network for pods.
//   - One suite at a time uses an OtherImage on a runtime: cases remove and pull it.
//
// # Limits
//
// The suite tests the CRI only, not isolation, security contexts, devices, cgroups or the operation
// of a network. It makes no lasting change to a runtime: it sends no pod CIDR and removes no image
// except OtherImage.
//
// Example in example_test.go and Example_wrapper in example_wrapper_test.go compile; tests of the
// package run both.
package critest
