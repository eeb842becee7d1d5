// Package observe sees pods in a CRI runtime: it translates between the messages of the
// CRI and the vocabulary of package observed. An Observer is what a pleg.PLEG looks
// through:
//
//	observer, err := observe.New(observe.Config{Runtime: runtime, RuntimeName: "containerd"})
//	...
//	relist, err := pleg.New(pleg.Config{Runtime: observer})
//
// It keeps nothing, changes nothing, and starts no goroutine that outlives a call.
// Sandboxes and containers without a kubelet's labels are not seen.
//
// Examples that run: Example in example_test.go, and Example_recorder in
// example_recorder_test.go: with a Recorder of podworkerstest.
package observe
