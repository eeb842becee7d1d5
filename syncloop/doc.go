// Package syncloop connects event sources to the handler of a node agent, which it calls one call
// at a time.
//
//	EventSource ──┐                      ┌─ HandlePodAdditions, -Updates,
//	EventSource ──┼─> Loop ──> Handler ──┤  -Removes, -Reconcile
//	PodSource   ──┘                      └─ HandlePodSyncs, HandlePodCleanups
//
//	handler, err := syncloop.NewHandler(syncloop.HandlerConfig{Workers: workers, Sources: merger})
//	loop, err := syncloop.New(syncloop.Config{Handler: handler, Pods: merger, Sources: sources})
//	go workers.Run(ctx)
//	err = loop.Run(ctx)
//
// # Events
//
// An Event marks a pod or a source of pods as dirty and carries no payload. Emitting never blocks.
// The Loop coalesces equal events, so it needs no queue that can overflow, and duplicate or late
// events are harmless.
//
// A PodSource keeps its newest complete set and emits PodsChanged; reading the set has no side
// effect. The Loop compares the set, pod by pod, with the handled set and passes the differences
// to the Handler as ADD, UPDATE, DELETE, REMOVE and RECONCILE (see Diff). A pod that is created
// and deleted between two reads is never seen. Package podsource has such sources.
//
// An agent's own sources are EventSources. The kinds of events are:
//
//	PodsChanged       a source of pods has a newer set; the Loop reads it
//	PodDirty          from an observer of the runtime: the pod syncs
//	ContainerDied     as PodDirty; dead containers are pruned, too
//	ContainerRemoved  no effect, as LivenessPassed: sources can forward all events
//	SyncDue           from the workers' timers and deadlines: the pod syncs
//	LivenessFailed    from a probe: the pod syncs
//	ReadinessChanged  from a probe, after it stored the new value: the pod syncs
//	StartupChanged    as ReadinessChanged
//	ResourcesChanged  from devices: the pods sync, all changed ones in one call
//	Housekeeping      housekeeping runs without waiting for its period
//
// DefaultHandler.ActiveDeadlines is a source for active deadlines of pods. An Inbox is a source
// for callbacks; its Emit does not block.
//
// # The loop
//
// Each pass handles changes of pods first, then syncs, then housekeeping if it is due. The Loop
// calls Config.Health before each pass. While the runtime is unhealthy it handles no event and
// checks again after 100 ms, doubling the pause up to 5 s; events wait. A failed source runs again
// after a pause and is listed in Status. Failed sources do not end the loop.
//
// Panics do not end it either. A panic of a source counts as its failure, and a panic of a
// housekeeping step as the error of that step. If the handler panics over a pod, the Loop handles
// the remaining pods without it. It retries the pod alone, in its newest version, after 1 s,
// doubling the pause up to 30 s. Until a retry succeeds, the pod's source does not count as
// handled. Status and the log name the call that panicked.
//
// A hanging call blocks the loop. After StallLimit, CheckHealth fails and names the call, with the
// step that the handler set by SetStep.
//
// Stopping the Loop does not stop the pods. When the context of Run is done, the Loop handles no
// further events and leaves the pods unchanged.
//
// # The default handler
//
// NewHandler returns the usual Handler. It keeps the desired pods in an index, admits new ones,
// and updates the pod workers. Its housekeeping drops finished workers, restarts pods whose UID is
// reused, and kills pods that only the runtime lists. Other parts of an agent add steps as
// Cleaners. Until every source of pods is ready it removes no pods. With PerSource it removes the
// pods of ready sources meanwhile: a pod that disappears from its source, and a pod that only the
// runtime lists, with the name of its source (RuntimePod.Source), after that source was handled.
// Pods of unknown origin, and other leftovers, wait for all sources.
//
// # Admission
//
// An Admitter receives each new pod, in an Order, and the active pods. It admits the pod, rejects
// it, or makes it wait:
//
//   - A rejected pod has failed permanently; OnReject records that. It gets a worker only for its
//     teardown after deletion and does not count as active. Updates do not change the decision.
//   - A waiting pod is retried when it is updated and in each housekeeping. Its containers
//     from before a restart of the agent keep running.
//
// AdmitAll combines Admitters. Orders are ByCreation and ByPriority. Pods that start again under
// their old UID are admitted again. Unadmitted lists rejected and waiting pods with the reason.
//
// # Duties of the caller
//
//   - Run the workers beside the Loop and turn their OnDue callback into SyncDue events with
//     Loop.Emit. Emit Housekeeping when a worker finishes to make restarts immediate.
//   - In OnReject, record the rejection as the pod's status, so that the Phase function returns it.
//   - Emit LivenessFailed, ReadinessChanged and StartupChanged only after the syncer can read the
//     new result.
//   - For active deadlines, run ActiveDeadlines as a source and call PastActiveDeadline in SyncPod.
//     A pod past its deadline is Failed with the reason DeadlineExceeded, and SyncPod returns
//     terminal. The start time must survive a restart of the agent. Without an API server that
//     keeps it, use the creation time of the pod's first sandbox.
//
// # Limits
//
// The package does not call a runtime, observe containers, probe, or write statuses. Each of these
// is an EventSource, a Cleaner or the workers' syncer. An agent with a fixed list of pods can call
// the workers without this package.
//
// Runnable examples in example_test.go: Example, ExampleHandlerConfig_admission and ExampleDiff.
package syncloop
