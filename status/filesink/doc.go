// Package filesink is a status.Sink for a node without an API server: it keeps
// the pods with their statuses in one file and serves them over HTTP, both as the
// JSON of a v1.PodList.
//
//	file, err := filesink.New(filesink.Config{Path: "/var/lib/edge/status.json"})
//	statuses, err := writer.New(writer.Config{Sinks: []writer.NamedSink{{Name: "file", Sink: file}}})
//	...
//	err = file.Put(pod)    // when a pod is first seen
//	err = file.Remove(pod) // when nothing of it is left
//	http.Handle("/pods", file)
//
// At an API server pods are made and removed by others, and an agent only changes
// their statuses; so it is here. A status of a pod that was not Put is refused with
// status.ErrNotFound, and the Writer writes it when the pod is there.
//
// # What is promised
//
// The file is replaced as a whole and waits for the disk, so whoever reads it sees
// one state of all pods, also after kill -9 and a power cut. A call returns when the
// file has what it did. Calls at the same time share a write: a storm of changes
// costs a few writes, not one per pod.
//
// New reads the file, so that after a restart the pods are shown as they were until
// their new statuses come; a small agent needs no other memory (Status). What it then
// does without is in package checkpoint: a file per pod, of which a damaged one costs
// one pod's memory only, written before the runtime can forget. A file that cannot be
// used is set aside, with ".corrupt" added to its name.
//
// An example that runs: Example in example_test.go.
package filesink
