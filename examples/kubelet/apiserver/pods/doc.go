// Package pods is what an agent has to do with the pods of its node at an API server: a
// source of them, and a status.Sink for their statuses.
//
//	source, err := pods.NewSource(pods.SourceConfig{Client: client, NodeName: name, Merger: merger})
//	sink, err := pods.NewSink(client, name)
//
// The source registers itself with the merger as "api", and is one of the loop's sources.
// While the server has not answered it says nothing, so that nothing is taken away; later
// the last set stays in force whatever happens to the server.
package pods
