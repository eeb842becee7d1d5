// Package allocation keeps what pods were granted of cpu and memory, and decides about
// resizes of running pods (KEP-1287, and KEP-5419 for pods as a whole).
//
// What a pod's spec asks for is a wish. What it was granted when it was admitted, or at
// its last resize, is its allocation: that is what runs, what counts beside other pods, and
// what the next agent goes on with, whatever the spec says by then.
//
// # The decision
//
// [Decide] is the whole decision, as a pure function over the active pods as they should
// be, what they were granted, what waits already, and whether a pod fits:
//
//	d := allocation.Decide(allocation.Input{Pods: pods, Granted: granted, Waiting: waiting, Fit: fits})
//
// Each pod that wants other resources than it has is one of three things afterwards:
// granted, deferred because it does not fit now, or infeasible. Resizes are looked at in
// this order: those that do not ask for more, then by priority, by QoS class, and by how
// long they have waited. What is granted counts for those after it.
//
// # What is kept
//
// A [Store] is a file with a checksum, in the format and under the names of upstream's
// allocated_pods_state and actuated_pods_state, so that either agent goes on with what the
// other has left. A file that is damaged, or has more in it than this version knows, is
// refused: containers run by what it says.
//
// # The manager
//
// A [Manager] is a syncloop.Allocator, and with [Manager.Admitter] the last word of
// admission: what it grants is in the file before anybody acts on it. What a pod begins with
// is, once the pod has passed the [Stage]; without one, with the next resize. The Manager has
// no goroutine: the loop asks it when pods come, change, go or end.
//
// Static pods are not resized: a manifest that changes is granted what it says.
//
// Start with [Example].
package allocation
