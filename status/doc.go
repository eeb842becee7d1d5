// Package status turns what was observed of a pod, and what is wanted of it,
// into the v1.PodStatus that the API shows: phase, conditions, container
// statuses with waiting reasons and exit codes, addresses and quality of
// service.
//
// Compute is a pure function: no clock, no I/O, nothing kept between calls.
// Everything it needs comes in an Input; it changes nothing of it and the result
// shares no memory with it.
//
//	result := status.Compute(status.Input{
//		Pod:      pod,
//		Observed: observed, // from pleg
//		Previous: last,     // the result of the call before
//		Now:      time.Now(),
//	})
//
// Finalize closes the books of a pod that has ended, Reject makes the status of
// a pod that this node refuses to run.
//
// # What is remembered
//
// The runtime forgets: exited containers are removed, a node reboots, an agent
// starts anew. The previous status is therefore an input like any other. An exit
// code that was once seen stays; a container that vanished while it ran shows
// exit code 137 with reason ContainerStatusUnknown, since nobody knows the real
// one; a restart count never shrinks; a terminal phase is never left; a
// condition keeps its transition time until its status changes. Computing again
// from the same input, with the first result as the previous status, gives the
// same result.
//
// Nobody having looked (Input.Observed is nil) is not the same as nothing being
// there: containers, phase and addresses then stay as the previous status has
// them.
//
// # The caller's duties
//
// Observed has to be newer than what the caller last did to the pod, else the
// result describes the past. Terminal may be set only once every container has
// stopped for good. The result is to be kept as the next Previous: by the caller, or
// by a Manager.
//
// # Keeping and writing
//
// A Manager is the memory of the newest status of each pod and writes them to a
// Sink: an API server, a file (package filesink), an endpoint. Without one it is the
// memory only.
//
//	m, err := status.NewManager(status.ManagerConfig{Sink: sink})
//	go m.Run(ctx)
//	m.Set(pod, result.Status)
//	m.Get(pod.UID) // at once, whether the sink answers or not
//
// Nobody waits for the sink. Of each pod only the newest status is written, one
// write at a time and several pods at the same time: ends of pods first, then
// changes of the phase and of Ready, then the rest, each in the order in which they
// came, and one write in four goes to whoever has waited longest. What fails is
// repeated: after 200 ms first, then with growing pauses up to the resync of 10 s,
// and for all pods at once when the sink answers again. So a sink that is away for
// an hour costs one write per pod in the end.
//
// What others own is neither written nor overwritten; a write is the difference
// between what the sink is known to have and what is wanted, bound to the pod's
// UID. What others change of the node agent's part is written anew at the next
// resync, if the Manager is told of it (Observe). A terminal phase is written once
// nothing of the pod can run any more (ManagerConfig.MayStillRun), and a pod that is
// to be deleted is removed after that has been accepted and the pod is finished
// (Terminate). Static pods are written to their mirrors.
//
// Nothing is kept beyond the process: that is the caller's (package checkpoint,
// Manager.Restore).
//
// # What it does not do
//
// Compute truncates no messages and rounds no times (Normalize does) and merges
// nothing with what others wrote meanwhile (Merge does). Conditions about resizing
// are passed on, not decided.
package status
