// Package syncloop is the heart of a node agent: it takes events from many
// sources and calls a handler, one call at a time.
//
//	EventSource ──┐                      ┌─ HandlePodAdditions, -Updates,
//	EventSource ──┼─> Loop ──> Handler ──┤  -Removes, -Reconcile
//	PodSource   ──┘                      └─ HandlePodSyncs, HandlePodCleanups
//
// # Events
//
// An Event says what became dirty, never what happened: "this pod", "this source
// of pods". Emitting never blocks, and until the loop gets to it ten thousand
// events about one pod are one event. So the loop needs no queue that could
// overflow, and an event that comes twice or late does no harm.
//
// A source of pods follows the same rule. It keeps its newest complete set and
// says "changed"; the Loop asks for the difference to what it handled last, and
// gets it as ADD, UPDATE, DELETE, REMOVE and RECONCILE. A pod that was created
// and deleted in between never existed. Package podsource has such sources.
//
// # The loop
//
// Each pass first handles changes of pods, then syncs, then, if due,
// housekeeping. Before each pass the Loop asks Config.Health; while the runtime is
// unhealthy it handles nothing, and what comes in waits. A source that fails is
// run again after a pause, and Status shows it; no source ends the loop.
//
// Stopping the Loop is not stopping the pods: when the context of Run is done
// nothing more is handled, and the pods stay as they are.
//
// # The default handler
//
// NewHandler returns the usual Handler. It keeps the desired pods in an index,
// asks an admission function about new ones, and tells the pod workers. In
// housekeeping it lets the workers forget what has ended, restarts pods whose UID
// is used again, and has everything killed that only the runtime knows; other
// parts of an agent add their steps as Cleaners. Before every source of pods has
// been heard it takes nothing away; with PerSource it removes pods of the sources
// that have been.
//
// What the caller has to see to:
//
//   - run the workers beside the Loop, and turn their Resync callback into
//     SyncDue events with Loop.Emit. Emitting Housekeeping when a worker finishes
//     makes restarts immediate;
//   - record the verdict of OnReject as the pod's status, where the Phase function
//     finds it;
//   - emit LivenessFailed, ReadinessChanged and StartupChanged only after the new
//     result can be seen by the syncer;
//   - run ShouldSync with PastActiveDeadline as one of the sources, if pods have
//     active deadlines.
//
// What this package does not do: it does not talk to a runtime, observe
// containers, probe, or write statuses. Each of these is an EventSource, a Cleaner
// or the workers' syncer.
package syncloop
