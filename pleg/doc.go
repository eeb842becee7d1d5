// Package pleg observes what a runtime really runs: it lists pods, looks at those
// that changed, keeps what it saw, and tells what happened. PLEG stands for "pod
// lifecycle event generator", the kubelet's name for it.
//
// # Smallest use
//
//	p, err := pleg.New(pleg.Config{Runtime: rt, OnEvent: func(e pleg.Event) { wake(e.UID) }})
//	...
//	go p.Run(ctx)
//	...
//	status, err := p.Observe(ctx, uid, lastActed)
//
// Runtime is two methods: list everything, look at one. Anything that has pods can
// implement it; package plegtest has one in memory.
//
// # What it does
//
// Every RelistPeriod all pods are listed. A pod that differs from what is known is
// looked at with PodStatus; what that shows goes into the cache, and the
// difference to the last look becomes events:
//
//	old \ new   running   exited   unknown   absent
//	absent      Started   Died     -         -
//	running     -         Died     -         Died, Removed
//	exited      Started   -        -         Removed
//	unknown     Started   Died     -         Died, Removed
//
// Sandboxes have events like containers; a created container counts as unknown. A
// move to unknown refreshes the cache and is not reported.
//
// Up to 64 pods are looked at at the same time, each for up to 2 min. A pod that cannot be
// looked at keeps its record, so its events come later rather than never; it is
// listed in Health.Stale with the reason and tried again, after a second, then two,
// up to 30 s. A hanging one makes room for others after 5 s, and is looked at again
// whenever somebody asks or an event names it: at most two calls per pod are in
// progress. Healthy depends on completed lists alone; a list that fails or hangs
// makes it an error that says so, and the next one that succeeds makes it nil again.
//
// For a runtime without events AdaptiveRelist lists often after something happened
// and seldom at rest: pause = a tenth of the time since, from 100 ms to 5 s, so an
// activity costs 51 lists at most on top of one per 5 s.
//
// If the Runtime implements EventStream, its events say which pods to look at, at
// once. They are hints: what they say is never believed, only looked up, so it
// does no harm if they are lost, doubled, late or wrong. While the stream holds, all
// pods are listed every EventedRelistPeriod; when it ends, every RelistPeriod
// again from that moment. PodEvents must not wait for an absent runtime: a call
// that has lasted a second counts as an open stream, once a full list succeeded
// after it.
//
// # Freshness
//
// A status is as fresh as the beginning of the query that found it, ObservedAt,
// by this process's monotonic clock. Queries are numbered as they begin, and
// what an earlier one finds never replaces what a later one found. Times that
// the runtime reports decide nothing.
//
// Observe is how an actor sees its own actions: it returns something observed
// after the given moment and, if the cache has nothing, looks at once, even
// while an older look is in progress. So no transition waits for a list, and what
// was done is known after one look: two rounds of calls with a CRI runtime.
//
// Request does the same for callers that do not wait. Requests for a pod
// become one, never block and are never dropped: one that comes during a look
// causes another at once, and one whose look fails is repeated.
//
// # How is it doing
//
// Health is a value: age of the last list, the list in progress, mode, state of the
// stream, the pods that are stale and why. Healthy sums it up and OnHealth is
// told when that changes. Metrics are callbacks with durations and numbers.
//
// # The caller's duties
//
// Run must be running for Observe to work, and returning from it means that
// everything has stopped. Stopping a PLEG stops looking; it touches no pod.
//
// Statuses that were handed out are shared: do not change them.
//
// Before Complete nothing is known to be absent. An empty status proves that the
// pod is gone only if its ObservedAt is set and Get returned no error.
//
// # What it does not do
//
// It never changes a pod, and it does not know which pods there should be. What
// is created and removed again between two looks is not seen, unless events or
// the exited instance tell of it.
//
// An example that runs: Example in example_test.go.
package pleg
