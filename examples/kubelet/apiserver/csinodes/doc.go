// Package csinodes tells an API server which CSI drivers a node has, and what the node is
// for each of them: the scheduler, the attacher and the provisioner look there.
//
//	manager, err := csinodes.New(csinodes.Config{Client: client, NodeName: name, Node: node})
//	go manager.Run(ctx)
//	manager.Look(driver, registry) // when a driver has registered, or has gone
//	manager.Wake()                 // when the Node has changed
//
// What a driver answers to NodeGetInfo goes to two objects. The Node gets an entry in its
// annotation csi.volume.kubernetes.io/nodeid and the labels of the driver's topology; then
// the CSINode of the same name, which the Node owns, gets an entry with the node's ID, the
// keys of those labels, and how many volumes fit. A driver that goes loses its entries, the
// one in the CSINode first. The labels stay: volumes that were made here refer to them, and
// other drivers may do so too.
//
// The CSINode is made before there is a driver, and again when somebody has deleted it, or
// when the Node is another one than its owner. Until it has been there once, the node is
// not ready for pods (Initialised).
//
// # What is left alone
//
// Entries are removed only of drivers that this Manager has seen registered: those that an
// agent before it has left, or that others have made, stay as they are. A label that is
// there with another value is not overwritten: the driver gets no entries then, and the
// error is a TopologyError that names both values. What is refused of one driver keeps no
// other from its entries.
//
// # When the server does not answer
//
// Look and Wake take down what is to be done and never block; Run does it, repeats what
// fails with growing pauses, and reads again what was changed by others meanwhile. A node
// may do all of this about itself under the Node authorizer and NodeRestriction. It may not
// watch its CSINode: that one is read again after each Period.
package csinodes
