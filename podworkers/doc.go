// Package podworkers runs the lifecycle of each pod for a node agent. It calls a PodSyncer that
// starts, stops and cleans up pods, in this order, one call at a time per pod, and retries
// failed calls.
//
//	            update                      SyncPod has ended
//	           ┌──────┐                             │
//	Waiting ─▶ Syncing ─▶ TerminationRequested ─▶ Terminating ─▶ Terminated ─▶ Finished
//	          (SyncPod)   (SyncPod, cancelled) (SyncTerminatingPod) (SyncTerminatedPod)
//
// The package has no concept of containers. The syncer decides what implements a pod: containers
// behind CRI, a virtual machine, a remote device.
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
// Workers is safe for concurrent use. Example in example_test.go is a complete program.
//
// # Duties of the caller
//
//   - Send each change with UpdatePod. Updates are level-triggered: the newest pod counts, and
//     several updates may lead to one call.
//   - Call SyncKnownPods every few seconds with all desired pods, but not before the set is
//     complete: it terminates pods that are missing. It also retries failed calls of undesired
//     pods, and only it makes the workers forget a pod. Afterwards send UpdateCreate for desired
//     pods that are missing in its result.
//   - Never change a pod after passing it to the workers.
//   - Use Forget if one pod is certainly desired while the set is incomplete. It lets a pod
//     start again under the UID of a finished one.
//
// # How a pod ends
//
// A deletion timestamp, a final phase, UpdateKill, terminal from SyncPod, or absence in
// SyncKnownPods requests termination. This cannot be revoked, and cancels a running SyncPod. The
// grace period is the smallest of the pod's deletion grace period and the overrides of kills, or
// else the value of the spec. It is at least one second and never grows. When it shrinks, the
// running stop is cancelled and repeated with the shorter one.
//
// A pod that returns with the UID of a terminating one starts after that one is finished and
// forgotten.
//
// Static pods with one full name run one after another in order of arrival. The next one starts
// when the previous one is finished.
//
// # Pauses between attempts
//
// A failed call is retried after Config.RetryBackoff, 10 s, plus up to half of it. This pause
// does not grow. Repeated exits of a container are not failed calls: cri/pods delays restarts
// itself. An agent without CRI delays them with an error of RetryAt, as SyncPod does in
// examples/vmfleet: 10 s after the exit, doubled each time up to 5 min.
//
// # Stopping the agent is not stopping the pods
//
// When Run's context is done, running calls are cancelled with the cause ErrAgentStopping, and
// no pod is terminated. To stop pods, kill them before.
//
// # After a crash of the agent
//
// This package stores no state. A restarted agent reads it from these places:
//
//   - The source has the desired pods and their UIDs. Send all of them before the first
//     SyncKnownPods, including those of broken manifests.
//   - The runtime has the actual pods, marked with UID, name and namespace. Send pods that only
//     the runtime lists as RuntimePods. Without that they would run forever.
//   - The syncer stores restart counts, the configuration of containers and their exit status
//     with the containers, because this also shows that a container needs no restart.
//   - The syncer must find other resources of a pod (folders, mounts, addresses) without a
//     worker. SyncTerminatedPod may have run partly or not at all: the owner's cleaners release
//     the rest, with the methods of PodState.
//
// The rest is lost. It costs only time, or is determined again:
//
//   - Calls: an interrupted call is repeated. A call of the syncer may therefore find its own
//     effect, complete or partial, or see it appear later.
//   - Retries, resyncs and back-off: all pods are due at once.
//   - Terminations and grace periods: a terminating pod starts with SyncTerminatingPod if it has
//     a deletion timestamp or a final phase, with SyncPod if only a kill requested the
//     termination, and as a RuntimePod if it is undesired. The grace period starts again; the
//     syncer chooses a RuntimePod's.
//   - The order of static pods with one full name: it is the order of the updates. A RuntimePod
//     has no place in it, because it is not recognizable as static. A syncer that wants the new
//     pod to wait for it must look for other UIDs with that name.
//
// Package cri/podsyncer does all of this and documents the places. The tests of examples/kubelet
// kill it at random moments.
//
// # Inspection
//
// State and Pods explain each pod: its state and the time of its start, the running call and its
// duration, the last error, the next attempt, and the event that the pod waits for.
// Config.OnTrace receives all inputs and decisions. Package podworkerstest tests a PodSyncer
// with them.
//
// # Cost
//
// A pod has a goroutine only during a call. An idle pod is a record of less than 2 KiB and a
// context. The number of parallel calls is unlimited; syncers limit the use of scarce resources
// themselves.
//
// # Tests
//
// A machine without goroutines, clock or I/O makes all decisions. Its tests try every input in
// every reachable state of a few pods and check each path against the invariants of the
// lifecycle; for one pod this is exhaustive. Scripts in testdata show the scenarios, and a soak
// test runs 500 pods for hours. A longer exploration:
//
//	go test -run TestExplore -explore 10m -v ./podworkers
//
// # Limits
//
// The package does not watch the runtime, compute statuses, admit pods or determine the desired
// pods: see the packages pleg, status and syncloop. An agent that only reports the pods of
// another system does not need it.
package podworkers
