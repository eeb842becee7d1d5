// Package csinodes writes the CSI drivers of a node, and their data about the node, to an API
// server. The scheduler, the attacher and the provisioner read them.
//
//	manager, err := csinodes.New(csinodes.Config{Client: client, NodeName: name, Node: node})
//	go manager.Run(ctx)
//	manager.Look(driver, registry) // when a driver has registered or deregistered
//	manager.Wake()                 // when the Node has changed
//
// A driver's response to NodeGetInfo goes to two objects. The Node gets an entry in its annotation
// csi.volume.kubernetes.io/nodeid, and the labels of the driver's topology. Then the CSINode of the
// same name, which the Node owns, gets an entry with the node's ID, the keys of those labels, and
// the maximum number of volumes. A deregistered driver loses its entries, first in the CSINode. The
// labels stay, because volumes and other drivers may refer to them.
//
// The CSINode is created before there is a driver. It is created again if it was deleted or if its
// owner is another Node. The node is not ready for pods before the CSINode existed once
// (Initialised).
//
// # Limits
//
// A Manager removes only entries of drivers whose registration it has seen. Entries of an earlier
// agent or of others stay. A label with another value is not overwritten: the driver then gets no
// entries, and the error is a TopologyError with both values. A refused entry of one driver does
// not affect other drivers.
//
// # Failures of the server
//
// Look and Wake record the change and never block. Run writes it, retries failures with growing
// pauses, and reads objects again after conflicts. The Node authorizer and NodeRestriction allow a
// node all of this for itself. A node may not watch its CSINode, so Run reads it after each Period.
package csinodes
