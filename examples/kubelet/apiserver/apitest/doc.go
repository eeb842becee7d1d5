// Package apitest is an API server in memory, for tests of API clients. It speaks JSON and protobuf
// over HTTP, and keeps objects with UIDs and resource versions. It serves lists and watches with
// field selectors, strategic merge patches, subresources and preconditions, and issues tokens.
// Tests can make it fail: entirely (SetDown), per call (Fault), or by ending watches and dropping
// their history.
//
//	server := apitest.Start(t)
//	client, err := apiserver.New(apiserver.Config{Kubeconfig: server.Kubeconfig, Dial: server.Dial, UserAgent: "test"})
//
// Start serves in memory, so that a whole test can run in a synctest bubble and pass hours of
// virtual time. StartSecure does so with TLS, rejects expired and missing credentials, and signs
// certificate requests. StartTLS serves a loopback port with certificates of its own.
//
// A Server is safe for concurrent use. It has no validation, admission or authorization: it accepts
// requests that a real server refuses.
package apitest
