// Package pods reads the pods of a node from an API server and writes their statuses: a source, and
// a status.Sink.
//
//	source, err := pods.NewSource(pods.SourceConfig{Client: client, NodeName: name, Merger: merger})
//	sink, err := pods.NewSink(client, name)
//
// The source registers with the merger as "api", and is one of the loop's sources. Before the first
// response of the server it delivers no set, so that running pods stay. Afterwards the last set
// stays valid during failures of the server.
package pods
