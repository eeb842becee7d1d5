// Package writer stores the newest status of every pod, and writes it to any number of sinks: an
// API server, a file (package filesink), an endpoint, a checkpoint on the disk (package
// checkpoint), a function (status.SinkFunc). Without a sink it only stores statuses. An agent
// whose statuses are only computed on request does not need it.
//
//	w, err := writer.New(writer.Config{Sinks: []writer.NamedSink{
//		{Name: "api", Sink: server, Origin: true},
//		{Name: "file", Sink: file},
//	}})
//	go w.Run(ctx)
//	w.Set(pod, result.Status) // from status.Compute
//	w.Get(pod.UID)            // at once, even if a sink does not respond
//
// A Writer is safe for concurrent use. Only Flush waits for a sink, and sinks do not wait for
// each other. The Writer writes only the newest status of a pod to each sink: one write at a
// time per pod, up to 16 pods in parallel. Ends of pods come first, then changes of the phase
// and of Ready, then the rest, each in the order of the changes. A less urgent change goes first
// once it has waited 10 s longer per level of urgency. Failed writes are retried, first after
// 200 ms, then with growing pauses up to the resync of 10 s (1 min while the sink has no such
// pod), and for all pods at once when the sink responds again. After an outage of an hour a sink
// gets one write per pod.
//
// # Writes
//
// A write is the difference between the last known status of the sink and the newest one, bound
// to the pod's UID. It neither contains nor overwrites data of other components. If others change
// the node agent's part, it is written again at the next resync, provided that Observe reports
// the change. A terminal phase is written once no container of the pod can run any longer
// (Config.MayStillRun). A pod with a deletion request is removed from the sink after the sink has
// accepted its terminal phase and all its resources are released (Terminate). Static pods are
// written to their mirror pods if the sink has them.
//
// A sink that implements status.Receiver receives each newest status as a whole; its Get, Patch
// and Delete are not called. If it implements status.DeletionReceiver, it also receives the
// deletion of each pod, once and after the last status.
//
// # Writes before an action
//
// Flush writes one pod to one sink and waits for the result, to save an observation before an
// action that makes the runtime forget it:
//
//	w.Set(pod, result.Status)
//	err := w.Flush(ctx, "checkpoint", pod.UID) // log err and go on: a full disk must stop no pod
//
// The Writer itself stores nothing beyond the process. After a restart, Restore returns to it the
// statuses that a sink has stored.
//
// Runnable examples: ExampleWriter, ExampleWriter_sinkFunc and ExampleWriter_deletion in
// example_test.go.
package writer
