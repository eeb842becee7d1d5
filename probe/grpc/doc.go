// Package grpc executes grpc probes (KEP-2727): a container passes when its server
// answers grpc.health.v1.Health/Check with SERVING within the probe's timeout.
//
//	prober, err := grpc.New(grpc.Config{})
//	manager, err := probe.New(probe.Config{
//		Probers: map[probe.Handler]probe.Prober{probe.GRPC: prober},
//		...
//	})
//
// The pod itself is asked, at the port of the handler, without TLS and without any
// proxy. The service is the handler's; without one the server as a whole is meant.
// Connecting and asking share the timeout, and a server that cannot be reached is
// not tried twice in one probe.
//
// Whatever the server does or fails to do is a failure: another status, a service
// that it does not know, no health service at all, no answer. Errors are left for
// what says nothing about the container: a port out of range, a pod without an
// address, a caller that gives up, a node that has no more files or local ports.
//
// A probe makes one connection, and the node is the side that closes it: of each it
// keeps a trace for a minute (TIME_WAIT).
//
// An example that runs: Example in example_test.go.
package grpc
