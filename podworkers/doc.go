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
//   - Forget is for callers that know one pod to be desired but not yet all of them:
//     it lets a pod start again under the UID of one that is finished.
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
// # Pauses between attempts
//
// A call that failed is repeated after Config.RetryBackoff, 10 s, plus up to half of it,
// and this pause does not grow. That something in a pod ends again and again is no failed
// call: cri/pods holds containers back, and an agent without CRI does so itself with an
// error of RetryAt, as hold in examples/vmfleet: until 10 s after the end, doubled each
// time up to 5 min.
//
// # Stopping the agent is not stopping the pods
//
// When Run's context ends, running calls are cancelled with the cause
// ErrAgentStopping, and no pod is terminated. To stop pods, kill them before.
//
// # After a crash of the agent
//
// Nothing is stored here. What must survive lies with others, and whoever starts
// the agent again reads it back:
//
//   - which pods are desired, under the UIDs they had: the source's. All are sent
//     again before the first SyncKnownPods, those of broken manifests, too;
//   - what there is of each pod, marked with its UID, name and namespace: the
//     runtime's. Pods of which only that is left are named as RuntimePods. Otherwise
//     they would run for ever;
//   - how often a container ran, what it was made from, how it ended: the syncer's,
//     on what it made, since it is also what tells that something needs no restart;
//   - what else was taken for a pod (folders, mounts, addresses): the syncer's, and
//     it must be found without a worker. SyncTerminatedPod may never have run, or
//     half of it: the owner's cleaners release the rest, with the questions of
//     PodState.
//
// What is lost is only what costs time, or is found out anew:
//
//   - calls: whichever was cut off is made again. A call of the syncer may therefore
//     find its own effect, complete or in part, or see it come later;
//   - retries, resyncs and back-off: everything is due at once;
//   - terminations and grace periods: a pod that was terminating starts with
//     SyncTerminatingPod if its deletion timestamp or final phase says so, with
//     SyncPod if nothing but a kill did, and as a RuntimePod if it is not desired. The
//     grace period begins anew, a RuntimePod's is the syncer's choice;
//   - the order of static pods of one full name: it is that of the updates. A
//     RuntimePod is in no order, as nobody knows that it is static: a syncer that wants
//     the new pod to wait for it looks for other UIDs of the name itself.
//
// Package cri/podsyncer does all of this and says what lies where; the tests of
// examples/kubelet kill it at random moments.
//
// # Questions
//
// State and Pods explain each pod: its state and since when, what runs and for how
// long, the last error, the next attempt, and what it waits for. Config.OnTrace is
// told all that happens. Package podworkerstest tests a PodSyncer with it.
//
// # Cost
//
// A pod has a goroutine only while a call runs. An idle pod is a record of less
// than 2 KiB and a context. No limit is put on how many calls run at a time;
// syncers share out what is scarce themselves.
//
// # Why to trust it
//
// What decides is a machine without goroutines, clock or I/O. Its tests take every
// input in every state that a few pods can get into, and check each path against the
// invariants of the lifecycle; for one pod that is all that can ever happen. Scripts
// in testdata show the scenarios, and a soak lets 500 pods live for hours. A longer
// exploration:
//
//	go test -run TestExplore -explore 10m -v ./podworkers
//
// # What it does not do
//
// It does not watch the runtime, compute statuses, admit pods or find out which
// pods are desired: see the packages pleg, status and syncloop.
//
// An example that runs: Example in example_test.go.
package podworkers
