// Package evictions lets package syncloop/eviction work on a node: it reads what a kubelet's
// configuration says about evictions, and measures the node and its pods.
//
//	policy, err := evictions.Policy(&kubeletConfiguration)
//	measurer, err := evictions.NewMeasurer(evictions.Config{Policy: policy, Stats: summary, ...})
//	manager, err := eviction.New(eviction.Config{Policy: policy, Measure: measurer.Measure, ...})
//
// # What a measurement costs
//
// A pass every ten seconds must not read the cgroups of all containers. So the node alone is
// read, and pods only when what is left is near a threshold. For limits of emptyDir volumes
// it counts what is measured once a minute anyway; for limits of ephemeral storage the runtime
// is asked what containers have written.
//
// # What is not believed
//
// A figure without a time, or of a time to come, is not known, and one whose time stands
// still evicts nobody (see package eviction). A threshold of no less than there is at all can
// never be kept, whoever is evicted: it counts as none, and is logged.
//
// An example that runs: ExamplePolicy in example_test.go.
package evictions
