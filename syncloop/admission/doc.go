// Package admission decides whether a pod may run on a node. It checks whether the pod fits beside
// the active pods, whether the node satisfies the pod's constraints (OtherNode), and whether the
// pod tolerates the node. The parts are pure functions and Admitters, all of them optional:
//
//	fit, err := admission.New(admission.Config{Allocatable: allocatable})
//	admit := syncloop.AdmitAll(fit, admission.Tolerating(node), mine)
//
// AdmitAll calls them in this order, and the first refusal decides. mine is an Admitter of the
// agent, for custom rules or for OtherNode; see the example of [Fit]. A node that accepts every pod
// needs no Admitter.
//
// # Critical pods
//
// With Config.Preempt, static pods and pods with a system priority are not rejected for lack of
// resources: other pods end for them. Pods of a QoS class end only for the part of the shortage
// that remains if all pods of the lower classes end. Within a class the pods whose requests are
// closest to the shortage are chosen. The pod waits until they have stopped, and is then checked
// again. Admission does not block meanwhile. If all possible victims do not suffice, the pod is
// rejected.
//
// # Nodes without an API server
//
// Fit.AwaitRoom keeps static pods waiting that the node has no room for, because no scheduler moves
// them to another node.
//
// # Accounting
//
// Every active pod counts with its requests, overhead and init containers, whether it uses them or
// not (KEP-753, KEP-2837). Resources that the Node does not list are not checked, except
// hugepages, which then count as zero. Other components account for extended resources that the
// Node does not list.
//
// Runnable example: ExampleFit in example_test.go.
//
// Unstable: a topology manager is planned, which will change Config and Fit.
package admission
