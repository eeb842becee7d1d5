// Package pleg detects changes of pods in a container runtime and caches their status for a node
// agent. PLEG stands for "pod lifecycle event generator", the kubelet's name for it.
//
//	p, err := pleg.New(pleg.Config{Runtime: rt, OnEvent: func(e pleg.Event) { wake(e.UID) }})
//	...
//	go p.Run(ctx)
//	...
//	status, err := p.Observe(ctx, uid, lastActed)
//
// A Runtime has two methods: list all pods, inspect one pod. Package plegtest has an in-memory
// implementation. A PLEG is safe for concurrent use. Returned statuses are shared and must not
// be changed. Example in example_test.go is a complete program.
//
// # Lists, inspections and events
//
// Every RelistPeriod the PLEG lists all pods. It inspects each pod that differs from its record
// with PodStatus, caches the result, and derives events from the difference to the previous
// inspection:
//
//	old \ new   running   exited   unknown   absent
//	absent      Started   Died     -         -
//	running     -         Died     -         Died, Removed
//	exited      Started   -        -         Removed
//	unknown     Started   Died     -         Died, Removed
//
// Sandboxes have events like containers. A created container counts as unknown. A change to
// unknown updates the cache without an event.
//
// Up to 64 inspections run in parallel, each for up to 2 min. After a failed inspection the pod
// keeps its record, so its events are delayed and not lost. The pod is listed in Health.Stale
// with the reason, and is inspected again after 1 s, 2 s and so on up to 30 s. An inspection
// that hangs for 5 s frees its slot, and an event then starts a second one; each pod has at most
// two. Healthy depends only on complete lists: it returns an error once the last list is older
// than the threshold of the mode, and nil again after the next list.
//
// For a runtime without events, AdaptiveRelist lists often after activity and rarely at rest.
// The pause is a tenth of the time since the last activity, from 100 ms to 5 s. An activity
// causes at most 51 lists more than at rest.
//
// If the Runtime implements EventStream, its events trigger inspections at once. They are only
// hints: a lost, duplicate, late or wrong one does no harm. While the stream is reliable, all
// pods are listed every EventedRelistPeriod, and every RelistPeriod from the moment that it
// ends. PodEvents is called again 1 s later, and after further failures up to 30 s later. It must
// not wait for an unavailable runtime, because its stream counts as reliable when it has lasted a
// second and a later list has succeeded.
//
// # Freshness
//
// ObservedAt of a status is the start of its query, by this process's monotonic clock. Queries
// are numbered by their start. The result of an earlier query never replaces the result of a
// later one. Times from the runtime have no influence.
//
// Observe returns a status that is newer than a given moment. If the cache has none, it inspects
// the pod at once, even during an older inspection. Thus no transition waits for a list, and the
// effect of an action is visible after one inspection: two rounds of calls with a CRI runtime.
//
// Request does the same for callers that do not wait. Requests for a pod are merged, never block
// and are never dropped. A request with Acted during an inspection causes another one at once. A
// request whose inspection fails is retried.
//
// # Health
//
// Health returns the age of the last list, the running list, the mode, the state of the stream,
// and stale pods with reasons. Healthy returns a summary, and OnHealth is called when it
// changes. Metrics are callbacks with durations and counts.
//
// # Duties of the caller
//
// Observe needs a running Run. When Run returns, all work has stopped. Stopping a PLEG does not
// change any pod.
//
// Before Complete, only an inspection proves that a pod is absent. An empty status proves that
// the pod is absent only if its ObservedAt is set and Get returned no error.
//
// # Limits
//
// A PLEG never changes pods and does not have the desired ones. A runtime that always has the
// current status of each pod in memory needs no PLEG. An object that is created and removed
// between two inspections is not seen, unless an event or its exited instance shows it.
package pleg
