// Package resize changes the resources of running pods without a restart (KEP-1287).
//
// A Store has the resources last applied to each pod, across restarts of the agent. Package
// actions compares them with the desired resources. A Resizer applies the difference to the
// runtime and to the pod's cgroup. pods.Manager does all of this in SyncPod if it has a store:
//
//	manager, err := pods.New(pods.Config{Actuated: store, ...})
//
// A Resizer is safe for concurrent use with different pods.
//
// examples/kubelet/agent/allocation.go keeps the records in the checkpoint of package allocation.
// See ExampleLoad in example_test.go.
//
// Unstable: a part of package pods that changes with each version of the kubelet.
package resize
