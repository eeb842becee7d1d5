// Package observed has the types of observed pods for packages that use a runtime's state:
// sandboxes, containers, their IDs and states, and the decision whether a pod needs a new
// sandbox.
//
// A Pod is one pod in detail, a ListedPod one pod in a list of all pods:
//
//	func web(pod *observed.Pod) bool {
//		c := pod.Newest("web")
//		return c != nil && c.State == observed.StateRunning
//	}
//
// A pleg.Runtime returns these types, package pleg caches them, and packages that compute
// statuses or actions read them without importing pleg. Code that only needs the reported state
// reads v1.PodStatus instead.
//
// The methods only read: they are safe for concurrent use as long as no caller changes the
// value. Package pleg shares its values between readers.
//
// See ExamplePod_SandboxChanged in example_test.go.
package observed
