// Package pods runs pods on a CRI runtime: one sandbox per pod, its containers in
// it, restarted as their policy says, stopped with their grace period, and
// removed when nobody needs them any more.
//
// A Manager is given a pod and what the runtime has of it, and does the next
// steps:
//
//	manager, err := pods.New(pods.Config{Runtime: runtime, Images: images, RuntimeName: "containerd"})
//	observer, err := observe.New(observe.Config{Runtime: runtime, RuntimeName: "containerd"})
//	...
//	status, err := observer.PodStatus(ctx, pod.UID)
//	...
//	result := manager.SyncPod(ctx, pods.SyncRequest{Pod: pod, Status: status})
//	if err := result.Err(); err != nil {
//		// try again, not before result.NotBefore()
//	}
//
// What to do is decided by actions.Compute, a pure function of the pod, the status
// and the results of probes. What the runtime is asked for is built by package
// request. SyncPod carries it out. Apart from the resources that were last told
// (Config.Actuated) nothing keeps a record of what was done: after a crash of the
// agent, at whatever line, the next status tells what is there, and it is taken
// over. Nothing is started twice.
//
// # The rooms
//
// The Manager starts and stops. What else there is to a pod on CRI has a package of
// its own below this one, each of use without the others where it says so:
//
//	observe   sees the pods in a runtime: what a pleg.PLEG looks through
//	actions   decides what to do next with a pod; pure
//	request   builds what the runtime is asked for; pure but for a few files
//	hooks     runs postStart and preStop handlers
//	resize    changes the resources of running pods, and remembers them
//	garbage   removes what pods have left behind
//	podfiles  the logs, links and termination messages of pods on the disk
//	labels    the names of labels and annotations in the runtime
//
// # A sync
//
// A sync does, in this order, as much of the following as is needed:
//
//   - It stops the whole pod, when its sandbox is to be replaced or it has come to
//     its end, or single containers.
//   - It takes all containers away when they are restarted together (KEP-5532), and
//     ends: Result.Again asks for the next sync at once.
//   - It removes containers that were never started, and instances of init
//     containers that nothing depends on any more.
//   - It makes the sandbox, and tells SyncRequest.SandboxReady.
//   - It starts ephemeral containers, whose failures are nobody else's; then init
//     containers and sidecars in order, where a plain init container that fails ends
//     the sync.
//   - It resizes running containers, and the pod around them, in place (KEP-1287).
//   - It starts regular containers, each for itself.
//
// Starting a container takes several steps. The waiting reason tells at which one it
// failed; it is in StartFailures until a start succeeds:
//
//	back-off of a crash loop        CrashLoopBackOff
//	images of volumes, and its own  those of package images
//	configuration, resources noted  CreateContainerConfigError
//	Config.PreCreate                PreCreateHookError
//	CreateContainer                 CreateContainerError
//	Config.PreStart                 PreStartHookError
//	StartContainer                  RunContainerError
//	postStart handler               PostStartHookError; the container is stopped
//
// # The caller's duties
//
//   - Call SyncPod and KillPod, and RemovePod of the garbage.Collector, for one pod
//     one after the other, each with a status observed after the end of the one
//     before. Different pods may go at the same time; Config.MaxConcurrentStarts
//     bounds the starts.
//   - Refuse pods for which Unsupported has something to say.
//   - Have the volumes mounted before SyncPod, and say where in Config.Inputs.
//   - Call again: when the pod changes, when the observer sees something, when
//     Err is not nil (not before NotBefore), and at once when Again says so.
//   - Set Config.Actuated, to a store that outlives the agent (package resize), if pods are to be resized in place, and show a failed ActionResizePodInPlace
//     as reason Error of the condition PodResizeInProgress.
//   - Have a garbage.Collector collect every minute or so, and remove pods that are
//     gone (RemovePod), or call Forget for them.
//
// # Contexts
//
// SyncPod and KillPod return soon after their context ends, between two calls of
// the runtime. A call that changes something in the runtime gets 5 s
// to finish, so that its outcome is known. An end of the context never stops a
// pod, and it is never recorded as the failure of a container.
//
// # What is written
//
// Labels, annotations, container hashes, log paths and links are those of the
// kubelet: a Manager and a kubelet can take over each other's running pods.
// Sandboxes and containers without these labels are left alone.
//
// # What it does not do
//
// It has no loop and no worker per pod (package podworkers), does not observe by
// itself (package pleg), mounts no volumes, runs no probes, sets up no cgroups of
// pods, and publishes no status.
//
// Examples that run: Example, ExampleConfig, ExampleManager_KillPod,
// ExampleResult_Explanation and ExampleUnsupported in example_test.go.
package pods
