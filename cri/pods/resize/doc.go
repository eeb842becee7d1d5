// Package resize changes the resources of running pods without a restart (KEP-1287).
//
// A Store remembers what the runtime was last told of each pod, across restarts of the
// agent. Package actions compares it with what a pod is to have; a Resizer tells the
// runtime, and the cgroup of the pod, what differs. pods.Manager does all that in
// SyncPod, once it is given a store:
//
//	manager, err := pods.New(pods.Config{Actuated: store, ...})
//
// examples/kubelet/agent/allocation.go keeps the records in the checkpoint of package
// allocation. An example that runs: ExampleLoad in example_test.go.
package resize
