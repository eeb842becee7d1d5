// Package tcpsocket executes tcpSocket probes: a container passes if one of its ports accepts a
// connection within the probe's timeout. The prober sends no data.
//
//	manager, err := probe.New(probe.Config{
//		Probers: map[probe.Handler]probe.Prober{probe.TCPSocket: tcpsocket.New(tcpsocket.Config{})},
//		...
//	})
//
// A Prober is safe for concurrent use. The host is the handler's, by default the pod's address.
// The port is a number, the name of a port of the same container, or a number as text. An unknown
// port and a pod without an address are errors without a verdict about the container. So are a
// cancelled caller, and a node without free files or local ports.
//
// The connection is closed when Probe returns. The node closes it first, so it stays in TIME_WAIT
// for a minute: sixty sockets per probe with a period of a second. They do not affect other
// connections.
//
// Runnable example: Example in example_test.go.
package tcpsocket
