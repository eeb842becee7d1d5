// Package allocation stores the cpu and memory that were granted to pods, and decides resizes of
// running pods (KEP-1287, and KEP-5419 for pod-level resources).
//
// A pod's spec contains a request. The resources granted at admission or at the last resize are
// its allocation. Containers run with the allocation, it counts beside other pods, and the next
// agent continues with it, even if the spec has changed.
//
// # The decision
//
// [Decide] is a pure function of the active pods in their desired version, their allocations, the
// waiting resizes, and a Fit:
//
//	d := allocation.Decide(allocation.Input{Pods: pods, Granted: granted, Waiting: waiting, Fit: fits})
//
// Each requested resize is granted, deferred because it does not fit now, or infeasible. The order
// is: resizes without an increase first, then by priority, by QoS class (Guaranteed first), and by
// waiting time. A granted resize counts for the following ones.
//
// # The store
//
// A [Store] is a file with a checksum, in the format and under the names of upstream's
// allocated_pods_state and actuated_pods_state, so that podwright and upstream can take over each
// other's files. A damaged file, or a file with unknown fields, is refused, because running
// containers depend on its contents.
//
// # The manager
//
// A [Manager] is the Allocator of a syncloop.HandlerConfig. [Manager.Admitter] is the last Admitter
// of a chain. Here fits is a [Fit] for resizes, and next an Admitter, such as admission.Fit:
//
//	store, err := allocation.Open(filepath.Join(root, allocation.AllocatedFile))
//	manager, err := allocation.New(allocation.Config{Store: store, Fit: fits})
//	admit := syncloop.AdmitAll(others, manager.Admitter(next))
//
// A granted resize is in the file before the Manager returns it. The first allocation of a pod is
// in the file after the pod has passed the [Stage], or without a Stage after the next resize. The
// Manager has no goroutine: the loop calls it when pods are added, changed, removed or end.
//
// Static pods are not resized: the allocation follows the manifest. A node whose pods are never
// resized does not need a Manager.
//
// Runnable example: Example in example_test.go.
//
// Unstable: managers of CPUs, memory and devices are planned, which will change Rules and Fit.
package allocation
