// Package podworkers drives every pod through its life: it calls a PodSyncer that
// makes the pod run, stops it, and cleans up after it, in this order, one call at
// a time per pod, and retries what fails.
//
//	            update        SyncPod says terminal,
//	           ┌──────┐       or ends cancelled
//	Waiting ─▶ Syncing ─▶ TerminationRequested ─▶ Terminating ─▶ Terminated ─▶ Finished
//	          (SyncPod)          (no call)     (SyncTerminatingPod) (SyncTerminatedPod)
//
// The package knows nothing about containers. What a pod is (containers behind
// CRI, a virtual machine, a device somewhere) is the syncer's business.
//
// # Use
//
//	workers, err := podworkers.New(podworkers.Config{Syncer: mySyncer})
//	...
//	go workers.Run(ctx)                   // blocks until ctx is done
//	workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod})
//	...
//	workers.SyncKnownPods(desiredPods)    // every few seconds
//
// # What the caller owes
//
//   - Tell of each change with UpdatePod. Updates are level-triggered: what counts
//     is the newest pod, and several updates may lead to one call.
//   - Call SyncKnownPods every few seconds with all desired pods, as soon as they
//     are completely known and not before: a pod that is not named is terminated.
//     It is also what repeats failed calls for pods that are not desired any more,
//     and the only thing that makes the workers forget a pod. Afterwards send
//     UpdateCreate for desired pods that are missing in its result.
//   - Never change a pod that was handed in.
//
// # How a pod ends
//
// Termination is requested by a deletion timestamp, a final phase, UpdateKill, a
// true from SyncPod, or by missing in SyncKnownPods. It cannot be revoked. A
// running SyncPod is cancelled. The grace period is the smallest of the pod's
// deletion grace period and the overrides of kills, or else the spec's; it is at
// least one second and never grows, and when it shrinks, the running stop is
// cancelled and repeated with less.
//
// A pod that comes again with the UID of one that is still terminating starts
// after that one is finished and forgotten.
//
// Static pods of one full name run one after the other, in the order of arrival;
// the next one starts at the moment at which the one before is finished.
//
// # Stopping the agent is not stopping the pods
//
// When Run's context ends, running calls are cancelled with the cause
// ErrAgentStopping, and no pod is terminated. To stop pods, kill them before.
//
// # Cost
//
// A pod has a goroutine only while a call runs. An idle pod is a record of less
// than 2 KiB and a context. No limit is put on how many calls run at a time;
// syncers share out what is scarce themselves.
//
// # What it does not do
//
// It does not watch the runtime, compute statuses, admit pods or find out which
// pods are desired: see the packages pleg, status and syncloop.
package podworkers
