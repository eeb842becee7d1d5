// Package apitest is an API server in memory, for tests of what talks to one. It speaks
// JSON and protobuf over HTTP, keeps objects with UIDs and resource versions, serves lists
// and watches with field selectors, strategic merge patches, subresources and
// preconditions, and issues tokens. It fails as it is told: whole (Down), per call (Fault),
// or by ending watches and forgetting their history.
//
//	server := apitest.Start(t)
//	client, err := apiserver.New(apiserver.Config{Kubeconfig: server.Kubeconfig, Dial: server.Dial, UserAgent: "test"})
//
// Start serves in memory, so a whole test may live in a synctest bubble and let hours
// pass. StartTLS serves a port of the loopback with certificates of its own.
//
// It validates nothing, has no admission and knows no users: what a real server refuses,
// this one may take.
package apitest
