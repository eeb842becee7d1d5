// Package pods runs pods on a CRI runtime. It makes one sandbox per pod, runs the pod's
// containers in it, restarts them by their restart policy, stops them with their grace period,
// and removes them when they are no longer needed.
//
// A Manager gets a pod and the pod's state in the runtime, and does the next steps:
//
//	manager, err := pods.New(pods.Config{Runtime: runtime, Images: images, RuntimeName: "containerd", Owner: owner})
//	observer, err := observe.New(observe.Config{Runtime: runtime, RuntimeName: "containerd", Owner: owner})
//	...
//	status, err := observer.PodStatus(ctx, pod.UID)
//	...
//	result := manager.SyncPod(ctx, pods.SyncRequest{Pod: pod, Status: status})
//	if err := result.Err(); err != nil {
//		// try again, not before result.NotBefore()
//	}
//
// SyncPod carries out the decisions of actions.Compute, a pure function of the pod, the status
// and the probe results. Package request builds the runtime's requests. After a crash of the
// agent, the next sync continues from the observed status, and starts no container twice. The
// Manager stores only the resources that it last applied (Config.Actuated).
//
// # Packages
//
// The Manager starts and stops pods. The packages below this one have separate tasks, and can be
// used separately where their documentation permits:
//
//	observe   reads pods from a runtime, for a pleg.PLEG
//	actions   decides the next steps of a pod; pure
//	request   builds the runtime's requests; pure except for a few files
//	hooks     runs postStart and preStop handlers
//	resize    resizes running pods and records their resources
//	garbage   removes leftovers of pods from the runtime
//	podfiles  logs, links and termination messages on the disk
//	labels    names of labels and annotations in the runtime
//
// # Owners
//
// Several agents can share a runtime and a LogRoot. Each has a cri.Owner: a name, which is a label
// on its sandboxes and containers, or cri.Owner{Unlabelled: true} for all pods without that label,
// as examples/kubelet has. Pods of other owners are invisible to the Manager, its observer and its
// garbage collection, and so are their logs: a file .owner in a pod's log directory has the name.
// An upstream kubelet ignores owners and removes the pods and logs of all others. An owner has one
// agent per runtime: podsyncer refuses a second one with a lock (cri.Owner.Lock).
//
// The owner separates neither images, whose collection spares the images of all containers, nor
// cgroups: an agent with PodCgroups needs a parent cgroup of its own, because a kubelet removes
// unknown pod cgroups below its own.
//
// # A sync
//
// A sync does these steps in order, each only if needed:
//
//   - It stops single containers, or the whole pod if the pod ends or its sandbox is replaced.
//     While single containers stop, it starts the containers that do not depend on a stop, and,
//     with SyncRequest.Newer, containers that end meanwhile.
//   - For a restart of all containers (KEP-5532) it removes all instances and ends. Result.Again
//     then requests the next sync at once.
//   - It removes containers that were never started, and unneeded instances of init containers.
//   - It creates the sandbox and calls SyncRequest.OnSandboxReady. If a pod's
//     sandbox is replaced repeatedly, the delay before each replacement grows from 1 s to 1 min.
//   - It resizes running containers and their pod in place (KEP-1287). The pod's cgroup also gets
//     the new resources of containers that do not run, before they start.
//   - It starts ephemeral containers, whose failures affect no other container; then init
//     containers and sidecars in order. If a plain init container fails, the sync ends.
//   - It starts regular containers, independently of each other.
//
// Starting a container takes several steps. The step that failed determines the waiting reason,
// which is in StartFailures until a start succeeds:
//
//	crash loop back-off             CrashLoopBackOff
//	image volumes, own image        a reason of package images
//	configuration, resource record  CreateContainerConfigError
//	Config.PreCreate                PreCreateHookError
//	CreateContainer                 CreateContainerError
//	Config.PreStart                 PreStartHookError
//	StartContainer                  RunContainerError
//	postStart handler               PostStartHookError; the container is stopped
//
// # Duties of the caller
//
// A Manager is safe for concurrent use. Its caller has these duties:
//
//   - For one pod, call SyncPod, KillPod and garbage.Collector.RemovePod one after another, each
//     with a status observed after the end of the previous call. Different pods may run in
//     parallel; Config.MaxConcurrentStarts bounds their starts.
//   - Refuse a pod if Unsupported returns errors for it.
//   - Mount the volumes before SyncPod, and pass their paths in Config.Inputs.
//   - Call SyncPod again when the pod changes, when the observer reports a change, when Err is
//     not nil (not before NotBefore), and at once if Again is true.
//   - To resize pods in place, set Config.Actuated to a store that outlives the agent (package
//     resize), and publish a failed ActionResizePodInPlace as reason Error of the condition
//     PodResizeInProgress.
//   - Run a garbage.Collector every minute or so. For pods that were removed for good, call its
//     RemovePod, or Forget.
//
// # Contexts
//
// SyncPod and KillPod return soon after their context is done. A call that creates, starts or
// resizes has another 5 s to finish, so that its outcome is recorded; calls that stop, remove or
// read are cancelled. Cancellation never stops a pod, and is never recorded as the failure of a
// container.
//
// # Compatibility
//
// Labels, annotations, container hashes, log paths and links are the same as the kubelet's: a
// Manager and a kubelet can take over each other's running pods. Sandboxes and containers without
// these labels are not touched.
//
// # Limits
//
// The package has no loop and no worker per pod (package podworkers), does not observe pods
// (package pleg), mounts no volumes, runs no probes, sets up no pod cgroups, and publishes no
// status. Package podsyncer combines all this: an agent that uses it calls no Manager itself.
//
// See Example, ExampleConfig, ExampleManager_KillPod, ExampleResult_Explanation and
// ExampleUnsupported in example_test.go.
package pods
