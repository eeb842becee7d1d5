// Package cluster_test lets the real kubelet be a node of a real cluster, on both
// containerds, and does with kubectl what people do:
//
//	go run ./examples/tools/testbed -controlplane -- go test -race ./examples/kubelet/e2e/cluster
package cluster_test
