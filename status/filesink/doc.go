// Package filesink is a status.Sink for a node without an API server. It stores the pods with
// their statuses in one file and serves them over HTTP, in both cases as a v1.PodList in JSON.
//
//	file, err := filesink.New(filesink.Config{Path: "/var/lib/edge/status.json"})
//	statuses, err := writer.New(writer.Config{Sinks: []writer.NamedSink{{Name: "file", Sink: file}}})
//	...
//	err = file.Put(pod)    // when a pod is first seen
//	err = file.Remove(pod) // after its resources were released
//	http.Handle("/pods", file)
//
// As with an API server, the agent creates and removes pods separately from their statuses. The
// status of a pod without a Put fails with status.ErrNotFound, and the Writer retries it until
// the pod exists. A Sink is safe for concurrent use.
//
// # Guarantees
//
// The file is replaced as a whole and flushed to the disk, so a reader sees one state of all
// pods, even after kill -9 and a power cut. A call returns after its change is in the file.
// Concurrent calls share a write: many changes at once cost a few writes, not one per pod.
//
// New reads the file, so that after a restart the pods keep their old statuses until new ones
// arrive. A small agent needs no other memory (Status). Package checkpoint offers more: one file
// per pod, so that a damaged file affects one pod only, and a write before the runtime can
// forget. An unusable file is set aside, with ".corrupt" added to its name.
//
// Runnable example: Example in example_test.go.
package filesink
