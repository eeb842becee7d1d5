// Package e2e tests the adapters below examples/kubelet/apiserver against a real API
// server, with the credentials of a node under the Node authorizer and NodeRestriction:
//
//	cmd='go test ./kubelet/apiserver/e2e'
//	GOWORK=off go run -C examples/controlplane . -- sh -c "cd $PWD/examples && $cmd"
//
// Without examples/controlplane around it, its tests are skipped.
package e2e
