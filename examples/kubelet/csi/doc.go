// Package csi reaches CSI drivers over their sockets: it is the gRPC client behind
// volume/csi, and the side of the node on which drivers register themselves.
//
// A driver puts a socket into the folder plugins_registry. The Registry asks it who it
// is, tells it whether it was taken, and forgets it when its socket goes. Each socket has
// a goroutine of its own: a driver that does not answer holds nobody up.
//
// Package csitest has a small driver for tests.
package csi
