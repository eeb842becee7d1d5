// Package pods runs pods on a CRI runtime: one sandbox per pod, its containers in
// it, restarted as their policy says, stopped with their grace period, and
// removed when nobody needs them any more.
//
// A Manager is given a pod and what the runtime has of it, and does the next
// steps:
//
//	manager, err := pods.New(pods.Config{Runtime: runtime, Images: images, RuntimeName: "containerd"})
//	...
//	status, err := manager.PodStatus(ctx, pod.UID)
//	...
//	result := manager.SyncPod(ctx, pods.SyncRequest{Pod: pod, Status: status})
//	if err := result.Err(); err != nil {
//		// try again, not before the times in the errors' NotBefore() methods
//	}
//
// What to do is decided by ComputeActions, a pure function of the pod, the status
// and the results of probes. SyncPod carries it out. Neither keeps a record of
// what was done: after a crash of the agent, at whatever line, the next status
// tells what is there, and it is taken over. Nothing is started twice.
//
// # The caller's duties
//
//   - Call SyncPod, KillPod and RemovePod for one pod one after the other, each
//     with a status observed after the end of the one before. Different pods may
//     go at the same time; Config.MaxConcurrentStarts bounds the starts.
//   - Refuse pods for which Unsupported has something to say.
//   - Have the volumes mounted before SyncPod, and say where in Config.Inputs.
//   - Call again: when the pod changes, when the observer sees something, when
//     Err is not nil.
//   - Call GarbageCollect every minute or so, and Forget or RemovePod for pods
//     that are gone.
//
// # Contexts
//
// SyncPod and KillPod return soon after their context ends, between two calls of
// the runtime. A call that changes something in the runtime gets Config.StepGrace
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
package pods
