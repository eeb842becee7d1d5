// Package evictions provides the inputs of package syncloop/eviction on a node: the policy from a
// kubelet's configuration, and measurements of the node and its pods.
//
//	policy, err := evictions.Policy(&kubeletConfiguration)
//	measurer, err := evictions.NewMeasurer(evictions.Config{Policy: policy, Stats: summary, ...})
//	manager, err := eviction.New(eviction.Config{Policy: policy, Measure: measurer.Measure, ...})
//
// # The cost of a measurement
//
// A pass every ten seconds must not read the cgroups of all containers. So it reads the node alone,
// and pods only when a resource is near a threshold. Limits of emptyDir volumes use the
// measurements that are made once a minute anyway. For limits of ephemeral storage the runtime
// reports the sizes of the writable layers. /etc/hosts and termination messages, which containers
// can fill, are read at each pass; upstream does not count the latter.
//
// # Ignored figures
//
// A figure without a time, or with a time in the future, is unknown. A figure whose time does not
// advance causes no eviction (see package eviction). A threshold that is not below the capacity is
// always crossed, so it is ignored and logged.
//
// Runnable example: ExamplePolicy in example_test.go.
package evictions
