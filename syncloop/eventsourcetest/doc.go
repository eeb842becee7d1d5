// Package eventsourcetest is the conformance suite for sources of a syncloop.Loop. It tests the
// contracts of syncloop.EventSource and syncloop.PodSource. An implementer calls it in a short
// test; see Example and ExampleRunPods.
//
// Each case is a subtest named after its rule. It has its own source and runs in a synctest
// bubble, so waiting takes no real time. A source that blocks or leaves goroutines fails its case;
// the remaining cases run. A source that cannot run in a bubble, such as one on inotify or a socket,
// stops the bubble's clock. Its case fails after 2 s, with the stacks. Such a source is tested in
// real time with RealTime.
//
// # Rules for an EventSource
//
//   - Run blocks until its context is done, also if it is done at the start. It joins every
//     goroutine that it started. It then returns nil or context.Canceled.
//   - Each change is reported by a later event to the emit of the current Run. Several changes may
//     share an event. Extra events are harmless, but a steady stream of them is a failure. Changes
//     before Run, or between two Runs, are reported as well.
//   - Events have a valid Kind and name their pod or source.
//   - After a failure Run returns an error, and the next Run continues. nil means that no further
//     events will come.
//
// emit neither blocks nor panics.
//
// # Rules for a PodSource
//
// RunPods feeds sets of pods and reads them as the Loop does.
//
//   - Each newer set emits PodsChanged. Reading then returns the newest complete set, without the
//     pods that it lacks. Before the first set it returns false; an empty set counts as a set.
//   - Of several pods with one name or UID the first counts. A set with a pod without a name is taken
//     without that pod or refused as a whole; its other pods stay.
//   - Reading has no side effect. The source copies the pods that it receives, and the pods that it
//     returned never change. An equal set yields equal pods.
//   - The source is ready after the first Handled that follows a set.
package eventsourcetest
