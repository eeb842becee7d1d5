// Package e2e tests the adapters below examples/kubelet/apiserver, and further users of the API
// server (certificates, authorization), against a real one, with the credentials of a node under
// the Node authorizer and NodeRestriction:
//
//	go run ./examples/tools/testbed -controlplane -- go test -race ./examples/kubelet/apiserver/e2e
package e2e
