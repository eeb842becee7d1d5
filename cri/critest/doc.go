// Package critest is the conformance suite of container runtimes: what a caller of
// the Container Runtime Interface may rely on, as tests that run against anything
// that implements cri.RuntimeService and cri.ImageService. cri/fake passes it in
// process and over gRPC, and so do containerd 1.6 and 2.2.
//
// # In a runtime's own tests
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
// Each case is a subtest that is named by the rule it checks, such as
// "Order/StartContainer of an exited container is refused", so that -run picks it
// and a failure reads as a sentence. The last line of the log counts the cases and
// names what the runtime lacks:
//
//	critest: containerd 1.6.20: 343 cases: 317 passed, 0 failed, 26 skipped; it lacks GetContainerEvents, ...
//
// Cases use sandboxes of their own, which they remove, and look at nobody else's,
// so the runtime may be in use. They need the tools of busybox in Subject.Image and
// log folders and mounts below the test's temporary folder, which the runtime must
// see under the same path. A case about an optional call is skipped where the call
// is Unimplemented; Subject says what more a runtime can show.
//
// # A runtime in memory
//
// A runtime that needs neither processes nor sockets runs the suite in virtual
// time, each case in a bubble: Config.Around is synctest.Test then. It must
// understand the commands of the suite; for cri/fake they are Programs and Ports,
// and its AnyImage stays false, since some cases are about images that are absent.
// The example Wrapper is a whole test, of something that wraps the fake.
//
// # Sessions
//
// A case about an exec, attach or port-forward session needs a client that opens
// the URL that the runtime has answered: Subject.Sessions, for which the Client of
// cri/streams is made (a module of its own, for it brings SPDY and WebSocket).
// Without one such a case is skipped with "no session client". That package's
// Server gives the fake such sessions.
//
// # What a caller may rely on
//
// The suite asserts what all runtimes do that we measured. Where they differ it
// asserts the part that they share, and the fake takes the strictest reading, so
// that what works on the fake works on all of them:
//
//	                                            containerd 1.6     containerd 2.2     a caller may rely on          cri/fake
//	codes of refused calls                      Unknown            Unknown            an error, other than          FailedPrecondition, AlreadyExists
//	                                                                                  NotFound; never the code      or InvalidArgument
//	stop of an unknown container or sandbox     NotFound           works              one of the two                NotFound
//	a kill while the container ends by itself   may fail once      works              repeat it                     works
//	removal of an unknown one                   works              works              works, or NotFound            works
//	empty ids                                   Unknown            Unknown            an error, from every call     InvalidArgument
//	part of an id                               finds the one      finds the one      nothing: use whole ids        NotFound, empty list
//	create in a stopped sandbox                 NotFound           works, and the     nothing runs: create or       refused
//	                                                               start is refused   start is an error
//	start in a sandbox that has stopped         StartError, 128    StartError, 128    it does not run               StartError, 128
//	update of an exited container               works              works              nothing                       refused
//	log reopened when not running               refused            refused            refused                       refused
//	statistics when not running                 Unknown            Unknown            nothing                       refused
//	sandbox statistics without cgroup_parent    Unknown            Unknown            nothing                       works
//	update of sandbox resources                 Unimplemented      Unknown            nothing                       works
//	create without a sandbox config             THE RUNTIME ENDS   Unknown            nothing: Subject.Hardened     InvalidArgument
//	metadata without a name, namespace, uid     works              works              an answer                     a name is required
//	label over 4096 bytes                       InvalidArgument    InvalidArgument    an answer, never a hang       InvalidArgument
//	annotation of 1 MiB                         works              works              an answer, never a hang       works
//	a host name of 300 bytes                    Unknown            Unknown            an answer                     Unknown
//	ContainerStatus.image                       full name          full name          a name of the image           full name
//	ContainerStatus.image_ref                   repository digest  repository digest  not empty, equal for equal    repository digest
//	                                                                                  images of a status
//	Container.image_ref (list)                  image id           image id           not empty                     image id
//	image_id                                    absent             absent             absent or right               present
//	user                                        absent             present            absent or right               present
//	stop_signal in the config                   ignored            ignored            what the status shows         honoured
//	started_at and finished_at                  in order           may cross when a   both are after created_at;    in order
//	                                                               program is short   in order after a stop
//	PodSandboxStatus.timestamp                  absent             absent             nothing                       present
//	namespaces of a default sandbox             options            no options         getters                       options
//	addresses of a stopped sandbox              gone               gone               gone                          gone
//	state of a sandbox just stopped             NOTREADY           may be READY yet   NOTREADY soon                 NOTREADY
//	GetContainerEvents, RuntimeConfig,          Unimplemented      works              either; see the last line     works
//	metrics
//	CheckpointContainer                         Unimplemented      needs criu         either                        Config.Checkpoints
//	ListImages with a filter                    ignores it         ignores it         what is asked for is there    ignores it
//	ExecSync whose caller leaves                may run on         may run on         nothing: give a timeout       is killed
//	ExecSync whose child keeps the output open  waits for it       waits for it       nothing: give ctx a deadline  returns
//	exec in an exited container                 NotFound           NotFound           an error, not an exit code    FailedPrecondition
//	a list of statistics while another          NotFound           works              ask again                     works
//	container goes
//	created and exited containers in it         there, empty       there, empty       whoever does not run has no   there, empty
//	                                                                                  processor time
//	a start that fails, as events               -                  created, deleted   no started event              created, deleted
//	"\r" at the end of a line in the log        dropped            dropped            nothing                       dropped
//	image_ref after the image is removed        image id           image id           not empty                     image id
//	image after the image is removed            as in the config   as in the config   not empty                     as in the config
//
// Conditions that no caller can rely on are not in the suite: texts of errors and
// messages, the order of lists, how soon an exit is noticed, which of two calls
// that race comes first.
//
// # The caller's duties
//
//   - Run as a user who may write what the runtime writes: log files and mounts
//     belong to the runtime and lie in temporary folders of the test.
//   - Give the suite a runtime that is ready, with a network for pods.
//   - Not run it twice at once on one runtime with the same OtherImage: its cases
//     remove and pull it.
//
// # What it does not do
//
// Nothing about isolation, security contexts, devices, cgroups or how a network
// works: only what the CRI tells its caller. It changes no runtime for good: it
// sends no pod CIDR and removes no image but OtherImage.
//
// Examples that run: Example in example_test.go and Example_wrapper in
// example_wrapper_test.go.
package critest
