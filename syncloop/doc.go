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
// says "changed"; reading it changes nothing. The Loop holds it, pod by pod, against
// what was handled, and hands the difference to the Handler as ADD, UPDATE, DELETE,
// REMOVE and RECONCILE (see Diff). A pod that was created and deleted in between
// never existed; what could not be handled differs again the next time. Package
// podsource has such sources.
//
// An agent's own sources are EventSources that emit:
//
//	PodsChanged       a source of pods: the Loop reads its newest set
//	PodDirty          an observer of the runtime: the pod syncs
//	ContainerDied     as PodDirty, and its dead containers are pruned
//	ContainerRemoved  nothing, as LivenessPassed: events can be passed on one to one
//	SyncDue           the workers' timers, deadlines: the pod syncs
//	LivenessFailed    a probe: the pod syncs
//	ReadinessChanged  a probe, once the new value can be seen: the pod syncs
//	StartupChanged    as ReadinessChanged
//	ResourcesChanged  devices: the pods sync, all that changed together in one call
//	Housekeeping      whoever left something: housekeeping, without its pause
//
// DefaultHandler.ActiveDeadlines is a source for the pods' active deadlines. An Inbox is a
// source for callbacks: its Emit does not block.
//
// # The loop
//
// Each pass first handles changes of pods, then syncs, then, if due,
// housekeeping. Before each pass the Loop asks Config.Health; while the runtime is
// unhealthy it handles nothing, asks again after 100 ms, twice that, up to 5 s, and
// what comes in waits. A source that fails is run again after a pause, and Status
// shows it; no source ends the loop.
//
// Nor does a panic. Of a source it is a failure; of a step of housekeeping it is
// the step's error; if the handler panics over a pod, the pods beside it are handled
// without it and it is tried again, alone and in its newest version, after 1 s, twice
// that, up to 30 s. Until that works the pod's source does not count as handled.
// Status and the log name what panicked.
//
// A call that hangs holds up the loop. CheckHealth then fails after StallLimit, and
// says which call it is; what the handler says with SetStep is part of that.
//
// Stopping the Loop is not stopping the pods: when the context of Run is done
// nothing more is handled, and the pods stay as they are.
//
// # The default handler
//
// NewHandler returns the usual Handler. It keeps the desired pods in an index, has
// new ones admitted, and tells the pod workers. In housekeeping it lets the workers
// forget what has ended, restarts pods whose UID is used again, and has everything
// killed that only the runtime knows; other parts of an agent add their steps as
// Cleaners. Before every source of pods has been heard it takes nothing away; with
// PerSource it removes pods of the sources that have been.
//
// # Admission
//
// An Admitter sees each new pod beside the active ones, in an Order. It admits the
// pod, rejects it, or holds it back:
//
//   - A pod that was rejected has failed for good: OnReject records that. It reaches
//     no worker except to be torn down when it is deleted, and does not count as
//     active. Updates change nothing.
//   - A pod that is held back is asked about again when it is updated and in each
//     housekeeping. What runs of it, from before a restart of the agent, is left
//     alone.
//
// AdmitAll asks several Admitters. Orders are ByCreation and ByPriority. Pods that start
// again under their old UID are admitted again. Unadmitted lists the held pods with the
// reason.
//
// # What the caller has to see to
//
//   - run the workers beside the Loop, and turn their OnDue callback into
//     SyncDue events with Loop.Emit. Emitting Housekeeping when a worker finishes
//     makes restarts immediate;
//   - record the verdict of OnReject as the pod's status, where the Phase function
//     finds it;
//   - emit LivenessFailed, ReadinessChanged and StartupChanged only after the new
//     result can be seen by the syncer;
//   - for active deadlines, run ActiveDeadlines as one of the sources, and let
//     SyncPod ask PastActiveDeadline: such a pod has Failed with the reason
//     DeadlineExceeded, and SyncPod returns terminal. The start time must survive a
//     restart of the agent; without an API server that keeps it, the creation of
//     the pod's first sandbox does.
//
// What this package does not do: it does not talk to a runtime, observe
// containers, probe, or write statuses. Each of these is an EventSource, a Cleaner
// or the workers' syncer.
//
// Examples that run: Example, ExampleHandlerConfig_admission and ExampleDiff in
// example_test.go.
package syncloop
