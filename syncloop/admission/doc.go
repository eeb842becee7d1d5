// Package admission decides whether a pod may run on a node: whether the node has enough
// of what the pod requests beside the pods that are there, and whether it is a node that
// the pod wants (OtherNode) and that wants the pod. Each part is a pure function over pods and the
// Node, or an Admitter around one:
//
//	fit, err := admission.New(admission.Config{Allocatable: allocatable})
//	admit := syncloop.AdmitAll(fit, admission.Tolerating(node), mine)
//
// They are asked in this order, and the first one that refuses a pod says why. An Admitter
// of one's own is a function; see the example of [Fit].
//
// # Critical pods
//
// A static pod, and one with a system priority, is not refused for want of room: with
// Config.Preempt other pods are ended for it. The victims are the fewest of the best
// class that it takes even if all of the lesser classes went, and among those of a class
// the ones whose requests come closest to what is missing. The pod is held back until they
// have stopped, and its fit is looked at again then. Nothing waits meanwhile.
//
// # What counts
//
// Every active pod counts with its requests, its overhead and its init containers, whether
// it uses them or not (KEP-753, KEP-2837). What the node does not tell of is not counted,
// except hugepages, of which it has none then. An extended resource that the Node does not
// have is somebody else's to count.
//
// An example that runs: ExampleFit in example_test.go.
package admission
