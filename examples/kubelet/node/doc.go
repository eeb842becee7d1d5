// Package node makes the machine a node of a cluster and keeps it one: it registers the
// node, reports its status (package status/node), renews its Lease, and notices when
// somebody else does so too.
//
//	gatherer, err := node.NewGatherer(node.GathererConfig{Root: os.DirFS("/"), ...}) // and the runtime's functions
//	n, err := node.New(node.Config{
//		Name: "worker-1", Facts: gatherer.Facts,
//		Nodes: api, Leases: api, // thin clients; see NodeClient and LeaseClient
//	})
//	err = n.Run(ctx) // until ctx ends; the pods run on
//
// # Registration
//
// The node is created with its labels, annotations and taints, and with its status. One
// that is there already keeps its taints and the labels of others; what is the agent's is
// put right with the first status. A node that is deleted while the agent runs is made
// anew at the next look: an agent that runs pods is a node, and one that nobody can see
// could not be told to stop them. With NoRegister somebody else makes the node.
//
// # Heartbeats
//
// Status and Lease are two loops that do not wait for each other. While the API is away
// each keeps trying with growing pauses; nothing piles up, so when it is back one write of
// each follows. Every write is bound to what was read: a status patch by the node's UID,
// a Lease by its version.
//
// # Two agents with one name
//
// Nothing in the API prevents it. An agent sees it when a Lease that it has renewed was
// renewed by somebody else, or when the node's status names another machine or boot than
// the one it wrote, or, at its start, when the name's Lease is fresh and the machine another
// one. It says so in the log and in Health, and goes on: which of the two is the wrong one
// is for a person to say.
//
// # Flags
//
// ParseLabels, ParseTaints, ParseNodeIPs, ParseCloudProvider and ParseReservations read flags
// and fields of the configuration file. Their errors contain the name of the flag or field.
// A Gatherer finds the facts.
//
// Examples that run: ExampleNew and ExampleParseTaints in example_test.go.
package node
