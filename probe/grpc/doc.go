// Package grpc executes grpc probes (KEP-2727): a container passes if its server responds to
// grpc.health.v1.Health/Check with SERVING within the probe's timeout.
//
//	prober, err := grpc.New(grpc.Config{})
//	manager, err := probe.New(probe.Config{
//		Probers: map[probe.Handler]probe.Prober{probe.GRPC: prober},
//		...
//	})
//
// A Prober is safe for concurrent use. It connects to the pod's address, at the port of the
// handler, without TLS and without a proxy. The service is the handler's; without one it is the
// server as a whole. Connection and call share the timeout. A probe does not retry a failed
// connection.
//
// A failure of the server is a Failure: another status, an unknown service, a missing health
// service, no response. Errors are reserved for problems without a verdict about the container: a
// port out of range, a pod without an address, a cancelled caller, a node without free files or
// local ports.
//
// A probe makes one connection and closes it on the node's side, so each connection stays in
// TIME_WAIT for a minute.
//
// Runnable example: Example in example_test.go.
package grpc
