// Package observe reads pods from a CRI runtime for a pleg.PLEG. It converts CRI messages to the
// types of package observed.
//
//	observer, err := observe.New(observe.Config{Runtime: runtime, RuntimeName: "containerd", Owner: owner})
//	...
//	relist, err := pleg.New(pleg.Config{Runtime: observer})
//
// An Observer is safe for concurrent use. It keeps no state, changes no pods, and starts no
// goroutine that outlives a call. It ignores sandboxes and containers without a kubelet's labels.
// Package podsyncer makes an Observer itself.
//
// See Example in example_test.go, and Example_recorder in example_recorder_test.go for a Recorder
// of podworkerstest.
package observe
