// Package e2e tests the adapters below examples/kubelet/apiserver against a real API
// server, with the credentials of a node under the Node authorizer and NodeRestriction:
//
//	go run ./examples/testbed -controlplane -- go test -race ./examples/kubelet/apiserver/e2e
package e2e
