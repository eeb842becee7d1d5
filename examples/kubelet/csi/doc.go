// Package csi connects the node to CSI drivers over their sockets: Client is the gRPC client for
// volume/csi, and Registry registers drivers.
//
// A driver creates a socket in the folder plugins_registry. The Registry requests its identity,
// registers it, reports the result to it, and removes it when its socket disappears. Each socket
// has its own goroutine, so a hanging driver does not block others.
//
// Package csitest has a small driver for tests.
package csi
