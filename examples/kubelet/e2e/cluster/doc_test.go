// Package cluster_test tests the kubelet as a node of a real cluster, on both containerds, through
// kubectl:
//
//	go run ./examples/tools/testbed -controlplane -- go test -race ./examples/kubelet/e2e/cluster
package cluster_test
