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
// Inspections run at the same time, MaxInspections of them. A pod that cannot be
// looked at keeps its record, so its events come later rather than never; it is
// listed in Health.Stale with the reason and tried again. A hanging one makes
// room for others after 5 s. Healthy depends on completed lists alone.
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
// after the given moment and, if the cache has nothing, looks at once. So no
// transition waits for a list.
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
package pleg
