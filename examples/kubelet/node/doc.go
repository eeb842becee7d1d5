// Package node registers a machine as a node of a cluster for an agent. It reports the node's
// status (package status/node), renews its Lease, and detects another agent with the same name.
//
//	gatherer, err := node.NewGatherer(node.GathererConfig{Root: os.DirFS("/"), ...}) // and the runtime's functions
//	n, err := node.New(node.Config{
//		Name: "worker-1", Facts: gatherer.Facts,
//		Nodes: api, Leases: api, // thin clients; see NodeClient and LeaseClient
//	})
//	err = n.Run(ctx) // until ctx is done; the pods keep running
//
// # Registration
//
// The node is created with its labels, annotations, taints and status. An existing node keeps its
// taints and the labels of others; the first status write corrects the agent's own labels and
// annotations. A node that is deleted while the agent runs is created again in the next round,
// because the control plane can stop the agent's pods only through a node. With NoRegister another
// component creates the node.
//
// # Heartbeats
//
// Status and Lease are two independent loops. While the API is unavailable, each retries with
// growing pauses, and writes once when the API is back. Each write applies only to the version that
// was read: a status patch to the node's UID, a Lease update to the Lease's resource version.
//
// A status is sent only after a look at its inputs (Config.Look): at a start, after the process or
// the machine was suspended, and before the node's readiness ends. Old data of a suspended process,
// and parts that have not read the runtime yet, are no failures. An input that cannot be read delays
// the first status by at most 10 s; the Lease does not wait. Writes end with Run's context.
//
// # Two agents with one name
//
// The API does not prevent this. An agent detects it when another client renews its Lease; when the
// node's status has a machine ID or boot ID that the agent did not write; or at its start, when the
// Lease is fresh and the status has another machine ID. The agent reports it in the log and in
// Health, and continues, because only an administrator can decide which agent has the wrong name.
//
// # Flags
//
// ParseLabels, ParseTaints, ParseNodeIPs, ParseCloudProvider and ParseReservations read flags and
// fields of the configuration file. Their errors contain the name of the flag or field. A Gatherer
// reads the facts of the machine.
//
// Examples that run: ExampleNew and ExampleParseTaints in example_test.go.
package node
