// Package tcpsocket executes tcpSocket probes: a container passes when a connection
// to one of its ports can be made within the probe's timeout. Nothing is sent.
//
//	manager, err := probe.New(probe.Config{
//		Probers: map[probe.Handler]probe.Prober{probe.TCPSocket: tcpsocket.New(tcpsocket.Config{})},
//		...
//	})
//
// The host is the handler's, or else the pod's address; the port is a number, the
// name of a port of the same container, or a number as text. A port that cannot be
// found and a pod without an address are errors: nothing was learned then. So are a
// caller that gives up, and a node that has no more files or local ports.
//
// The connection is closed when Probe returns. The node is the side that closes it,
// so it keeps a trace of it (TIME_WAIT) for a minute: sixty per probe with a period
// of a second, which no other connection meets.
//
// An example that runs: Example in example_test.go.
package tcpsocket
