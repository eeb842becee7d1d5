// Package writer keeps the newest status of every pod, and writes it to any number
// of sinks: an API server, a file (package filesink), an endpoint, a checkpoint on
// the disk (package checkpoint), a function (status.SinkFunc). Without a sink it is
// the memory of statuses only.
//
//	w, err := writer.New(writer.Config{Sinks: []writer.NamedSink{
//		{Name: "api", Sink: server, Mirrors: true},
//		{Name: "file", Sink: file},
//	}})
//	go w.Run(ctx)
//	w.Set(pod, result.Status) // of status.Compute
//	w.Get(pod.UID)            // at once, whether a sink answers or not
//
// Nobody waits for a sink, and no sink for another. To each sink only the newest
// status of a pod is written, one write at a time and several pods at the same time:
// ends of pods first, then changes of the phase and of Ready, then the rest, each in
// the order in which they came; what has waited 10 s longer is overtaken no more.
// What fails is repeated: after 200 ms first, then with growing pauses up to the
// resync of 10 s, and for all pods at once when the sink answers again. So a sink
// that is away for an hour costs one write per pod in the end.
//
// # What is written
//
// A write is the difference between what the sink is known to have and what is
// wanted, bound to the pod's UID. What others own is neither written nor overwritten.
// What others change of the node agent's part is written anew at the next resync, if
// the Writer is told of it (Observe). A terminal phase is written once nothing of the
// pod can run any more (Config.MayStillRun), and a pod that is to be deleted is
// removed after that has been accepted and nothing is left of it (Terminate). Static
// pods are written to their mirrors where the sink has these.
//
// A sink that is a status.Receiver is not asked for anything: it is handed each
// newest status as it is.
//
// # Before something changes
//
// Flush writes one pod to one sink and waits for that, so that what was seen of the
// pod is kept before the runtime is made to forget it:
//
//	w.Set(pod, result.Status)
//	err := w.Flush(ctx, "checkpoint", pod.UID) // a full disk stops no pod
//
// Nothing is kept beyond the process by the Writer itself: what a sink has kept comes
// back by Restore.
//
// Examples that run: ExampleWriter and ExampleWriter_sinkFunc in example_test.go.
package writer
