package podworkers

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var errBoom = errors.New("boom")

// Every row of table 1.5.
func TestTransitions(t *testing.T) {
	a := podOf("a")
	sa, sb := podOf("a", static("web")), podOf("b", static("web"))
	for _, tc := range []struct {
		name    string
		before  func(r *rig)
		trigger func(r *rig)
		uid     string
		want    State
		call    Call
	}{
		{"unknown, create", nil, func(r *rig) { r.update(create(a)) }, "a", StateSyncing, CallSyncPod},
		{"unknown, update", nil, func(r *rig) { r.update(update(a)) }, "a", StateSyncing, CallSyncPod},
		{"unknown, sync", nil, func(r *rig) { r.update(resync(a)) }, "a", StateSyncing, CallSyncPod},
		{"unknown, static, name taken", func(r *rig) { r.bring(sa, StateSyncing) },
			func(r *rig) { r.update(create(sb)) }, "b", StateWaiting, CallNone},
		{"unknown, kill (W12)", nil, func(r *rig) { r.update(kill(a)) }, "a", StateTerminating, CallSyncTerminatingPod},
		{"unknown, deleting (L15)", nil, func(r *rig) { r.update(create(podOf("a", deleting))) }, "a", StateTerminating, CallSyncTerminatingPod},
		{"unknown, final phase, not proven dead (W6)", nil,
			func(r *rig) { r.update(create(podOf("a", phase(v1.PodFailed)))) }, "a", StateTerminating, CallSyncTerminatingPod},
		{"unknown, final phase, dead (W5)", nil,
			func(r *rig) {
				r.do(func() { r.m.update(create(podOf("a", phase(v1.PodSucceeded))), true, r.now) })
			}, "a", StateTerminated, CallSyncTerminatedPod},
		{"unknown, live phase, dead", nil,
			func(r *rig) { r.do(func() { r.m.update(create(a), true, r.now) }) }, "a", StateSyncing, CallSyncPod},
		{"unknown, orphan (W19)", nil, func(r *rig) { r.update(orphan("a")) }, "a", StateTerminating, CallSyncTerminatingOrphan},
		{"waiting, its turn", func(r *rig) { r.bring(sa, StateTerminated); r.update(create(sb)) },
			func(r *rig) { r.end("a", false, nil) }, "b", StateSyncing, CallSyncPod},
		{"waiting, killed (W14)", func(r *rig) { r.bring(sa, StateSyncing); r.update(create(sb)) },
			func(r *rig) { r.update(kill(sb)) }, "b", StateFinished, CallNone},
		{"waiting, final phase", func(r *rig) { r.bring(sa, StateSyncing); r.update(create(sb)) },
			func(r *rig) { r.update(update(podOf("b", static("web"), phase(v1.PodFailed)))) }, "b", StateFinished, CallNone},
		{"waiting, observed (W21)", func(r *rig) { r.bring(sa, StateSyncing); r.update(create(sb)) },
			func(r *rig) { r.update(orphan("b")) }, "b", StateTerminating, CallSyncTerminatingPod},
		{"waiting, not desired (W18)", func(r *rig) { r.bring(sa, StateSyncing); r.update(create(sb)) },
			func(r *rig) { r.known(sa) }, "b", StateUnknown, CallNone},
		{"syncing, deleted", func(r *rig) { r.bring(a, StateSyncing) },
			func(r *rig) { r.update(update(podOf("a", deleting))) }, "a", StateTerminationRequested, CallSyncPod},
		{"syncing, final phase", func(r *rig) { r.bring(a, StateSyncing) },
			func(r *rig) { r.update(update(podOf("a", phase(v1.PodFailed)))) }, "a", StateTerminationRequested, CallSyncPod},
		{"syncing, killed", func(r *rig) { r.bring(a, StateSyncing) },
			func(r *rig) { r.update(kill(a)) }, "a", StateTerminationRequested, CallSyncPod},
		{"syncing, seen as orphan", func(r *rig) { r.bring(a, StateSyncing) },
			func(r *rig) { r.update(orphan("a")) }, "a", StateTerminationRequested, CallSyncPod},
		{"syncing, not desired", func(r *rig) { r.bring(a, StateSyncing) },
			func(r *rig) { r.known() }, "a", StateTerminationRequested, CallSyncPod},
		{"syncing, terminal (W23)", func(r *rig) { r.bring(a, StateSyncing) },
			func(r *rig) { r.end("a", true, nil) }, "a", StateTerminating, CallSyncTerminatingPod},
		{"syncing, terminal with an error", func(r *rig) { r.bring(a, StateSyncing) },
			func(r *rig) { r.end("a", true, errBoom) }, "a", StateSyncing, CallNone},
		{"syncing, clean", func(r *rig) { r.bring(a, StateSyncing) },
			func(r *rig) { r.end("a", false, nil) }, "a", StateSyncing, CallNone},
		{"requested, picked up", func(r *rig) { r.bring(a, StateTerminationRequested) },
			func(r *rig) { r.end("a", false, context.Canceled) }, "a", StateTerminating, CallSyncTerminatingPod},
		{"terminating, failed", func(r *rig) { r.bring(a, StateTerminating) },
			func(r *rig) { r.end("a", false, errBoom) }, "a", StateTerminating, CallNone},
		{"terminating, stopped", func(r *rig) { r.bring(a, StateTerminating) },
			func(r *rig) { r.end("a", false, nil) }, "a", StateTerminated, CallSyncTerminatedPod},
		{"orphan, stopped", func(r *rig) { r.update(orphan("a")) },
			func(r *rig) { r.end("a", false, nil) }, "a", StateUnknown, CallNone},
		{"terminated, failed", func(r *rig) { r.bring(a, StateTerminated) },
			func(r *rig) { r.end("a", false, errBoom) }, "a", StateTerminated, CallNone},
		{"terminated, clean", func(r *rig) { r.bring(a, StateTerminated) },
			func(r *rig) { r.end("a", false, nil) }, "a", StateFinished, CallNone},
		{"terminated, seen as orphan (W22)", func(r *rig) { r.bring(a, StateTerminated) },
			func(r *rig) { r.update(orphan("a")) }, "a", StateTerminated, CallSyncTerminatedPod},
		{"finished, desired", func(r *rig) { r.bring(a, StateFinished) },
			func(r *rig) { r.known(a) }, "a", StateFinished, CallNone},
		{"finished, not desired", func(r *rig) { r.bring(a, StateFinished) },
			func(r *rig) { r.known() }, "a", StateUnknown, CallNone},
		{"finished, restart requested", func(r *rig) { r.bring(a, StateFinished); r.update(create(a)) },
			func(r *rig) { r.known(a) }, "a", StateUnknown, CallNone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			if tc.before != nil {
				tc.before(r)
			}
			tc.trigger(r)
			require.Equal(t, tc.want, r.state(tc.uid), "state")
			require.Equal(t, tc.call, r.call(tc.uid), "running call")
			if tc.want == StateUnknown {
				require.NotContains(t, r.m.records, types.UID(tc.uid), "INV-18")
				require.Empty(t, r.m.brokenQueue(), "INV-18: nothing but records is due")
			}
		})
	}
}

// W29: the end of a call from before the pod was forgotten changes nothing.
func TestStaleEndIsIgnored(t *testing.T) {
	r := newRig(t)
	r.bring(podOf("a"), StateTerminated)
	old := r.running["a"]
	r.end("a", false, nil)
	r.known()
	r.update(create(podOf("a")))
	require.Equal(t, CallSyncPod, r.call("a"))
	r.do(func() { r.m.complete(old.uid, old.gen, result{}, r.now) })
	require.Equal(t, CallSyncPod, r.pod("a").Call, "INV-1: the new call still counts as running")
	require.Len(t, r.running, 1)

	current := r.running["a"]
	r.end("a", false, nil)
	before := r.pod("a")
	r.do(func() { r.m.complete(current.uid, current.gen, result{callError: classify(errBoom)}, r.now) })
	require.Equal(t, before, r.pod("a"), "it has ended already")
	r.do(func() { r.m.complete("unknown", 0, result{}, r.now) })
	require.Equal(t, StateUnknown, r.state("unknown"))
}

// INV-16 across forgetting: a pod that comes again is not shown what was true
// before the last call for its UID ended.
func TestActedAtSurvivesForgetting(t *testing.T) {
	r := newRig(t)
	r.update(create(podOf("a")))
	require.Zero(t, r.work("a").ActedAt)
	r.update(kill(podOf("a")))
	r.end("a", false, nil)
	require.Equal(t, r.now, r.work("a").ActedAt)
	r.end("a", false, nil)
	r.end("a", false, nil)
	ended := r.now
	r.known()
	r.update(create(podOf("a")))
	require.Equal(t, ended, r.work("a").ActedAt)
}

// D5, W26: flags are set by every update, also late ones.
func TestFlagsAreSetLate(t *testing.T) {
	evict := KillOptions{Evict: true}
	for _, s := range []State{StateSyncing, StateTerminationRequested, StateTerminating, StateTerminated, StateFinished} {
		t.Run(s.String(), func(t *testing.T) {
			r := newRig(t)
			r.bring(podOf("a"), s)
			require.False(t, r.pod("a").ContentMayBeRemoved())
			r.update(kill(podOf("a"), evict))
			require.True(t, r.pod("a").Evicted)
			require.True(t, r.pod("a").ContentMayBeRemoved())
			require.Equal(t, s >= StateTerminated, r.pod("a").ContainersMayBeRemoved(), "D6")
			r.update(update(podOf("a", deleting)))
			require.True(t, r.pod("a").Deleted)
		})
	}
}

// A stale list of what runs must not make the content of a pod removable.
func TestStaleOrphanSetsNoFlag(t *testing.T) {
	for _, s := range []State{StateTerminated, StateFinished} {
		r := newRig(t)
		r.bring(podOf("a"), s)
		r.update(orphan("a"))
		require.False(t, r.pod("a").Deleted)
		require.False(t, r.pod("a").ContentMayBeRemoved())
	}
}

// INV-14 and D1: a done channel is closed once, on every path.
func TestDoneChannels(t *testing.T) {
	done := make(chan struct{})
	with := func(u Update) Update { u.Kill = &KillOptions{Done: done}; return u }
	sa, sb := podOf("a", static("web")), podOf("b", static("web"))
	for _, tc := range []struct {
		name  string
		state State
		send  Update
		after func(r *rig) // until then it is open
	}{
		{"terminating succeeds", StateTerminating, with(kill(podOf("a"))), func(r *rig) { r.end("a", false, nil) }},
		{"terminating fails once", StateTerminating, with(kill(podOf("a"))), func(r *rig) {
			r.end("a", false, errBoom)
			require.Empty(r.t, r.closed)
			r.pass(10 * time.Second)
			r.end("a", false, nil)
		}},
		{"killed while syncing", StateSyncing, with(kill(podOf("a"))), func(r *rig) { r.end("a", false, nil); r.end("a", false, nil) }},
		{"with an update of a terminating pod", StateTerminating, with(update(podOf("a"))), func(r *rig) { r.end("a", false, nil) }},
		{"with the create of a successor", StateTerminating, with(create(podOf("a"))), func(r *rig) { r.end("a", false, nil) }},
		{"with an update of a live pod", StateSyncing, with(update(podOf("a"))), nil},
		{"terminated", StateTerminated, with(kill(podOf("a"))), nil},
		{"terminated, orphan", StateTerminated, with(orphan("a")), nil},
		{"finished (W7)", StateFinished, with(kill(podOf("a"))), nil},
		{"finished, create", StateFinished, with(create(podOf("a"))), nil},
		{"orphan stopped", StateUnknown, with(orphan("a")), func(r *rig) { r.end("a", false, nil) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.bring(podOf("a"), tc.state)
			r.update(tc.send)
			if tc.after != nil {
				require.Empty(t, r.closed)
				tc.after(r)
			}
			require.Equal(t, map[chan<- struct{}]int{done: 1}, r.closed)
		})
	}
	t.Run("waiting static pod (W14)", func(t *testing.T) {
		r := newRig(t)
		r.update(create(sa))
		r.update(create(sb))
		r.update(with(kill(sb)))
		require.Equal(t, map[chan<- struct{}]int{done: 1}, r.closed)
	})
	t.Run("registered twice", func(t *testing.T) {
		r := newRig(t)
		r.bring(sa, StateTerminating)
		r.update(with(kill(sa)))
		r.update(with(kill(sa)))
		r.end("a", false, nil)
		require.Equal(t, map[chan<- struct{}]int{done: 1}, r.closed)
	})
}

// 1.9: a live pod that appears while its UID is cleared away is not shown to the
// syncer, which would make its status final; one that is to end is.
func TestSpecTurnsUpForOrphan(t *testing.T) {
	t.Run("live", func(t *testing.T) {
		r := newRig(t)
		r.update(orphan("a"))
		r.update(resync(podOf("a")))
		r.end("a", false, errBoom)
		r.known(podOf("a"))
		r.pass(time.Minute)
		require.Equal(t, CallSyncTerminatingOrphan, r.call("a"))
		r.end("a", false, nil)
		require.Equal(t, StateUnknown, r.state("a"))
		require.NotContains(t, r.known(podOf("a")), types.UID("a"), "so the caller creates it (W20)")
	})
	t.Run("to be killed", func(t *testing.T) {
		r := newRig(t)
		r.update(orphan("a"))
		r.update(kill(podOf("a")))
		r.end("a", false, nil)
		require.Equal(t, CallSyncTerminatingPod, r.call("a"))
		require.EqualValues(t, 1, r.work("a").GracePeriodSeconds)
		r.end("a", false, nil)
		r.end("a", false, nil)
		require.Equal(t, StateFinished, r.state("a"))
	})
}

// A pod observed in the runtime while another one of its name runs is torn down
// beside it, and the next in line waits for both (INV-11).
func TestObservedWaiterBlocksSuccessor(t *testing.T) {
	pods := map[string]*v1.Pod{}
	r := newRig(t)
	for _, uid := range []string{"a", "b", "c"} {
		pods[uid] = podOf(uid, static("web"))
		r.update(create(pods[uid]))
	}
	r.update(orphan("b"))
	require.Equal(t, CallSyncTerminatingPod, r.call("b"))
	r.update(resync(pods["b"]))
	require.Equal(t, StateTerminating, r.state("b"), "W21")
	r.update(kill(pods["a"]))
	for range 3 {
		r.end("a", false, nil)
	}
	require.Equal(t, StateFinished, r.state("a"))
	require.Equal(t, StateWaiting, r.state("c"), "b is still being stopped")
	require.Contains(t, r.pod("c").WaitsFor, "b")
	require.True(t, r.m.mirrorTerminating("web_ns"))
	r.end("b", false, nil)
	r.end("b", false, nil) // the pending sync is superseded by the end
	require.Equal(t, StateFinished, r.state("b"))
	require.Equal(t, StateSyncing, r.state("c"))
	require.False(t, r.m.mirrorTerminating("web_ns"))
}

// A waiter that the runtime knows keeps its place until it is torn down, also
// before Run.
func TestObservedWaiterBeforeRun(t *testing.T) {
	for range 20 { // whatever the order of the map
		r := newShutRig(t)
		r.update(create(podOf("b", static("web"))))
		r.update(create(podOf("c", static("web"))))
		r.update(orphan("b"))
		r.do(func() { r.m.open(r.now) })
		require.Equal(t, CallSyncTerminatingPod, r.call("b"))
		require.Equal(t, StateWaiting, r.state("c"))
		r.end("b", false, nil)
		r.end("b", false, nil)
		require.Equal(t, CallSyncPod, r.call("c"))
	}
}

// Before Run nothing is called, and nothing is lost.
func TestBeforeRun(t *testing.T) {
	r := newShutRig(t)
	r.update(create(podOf("a")))
	r.update(kill(podOf("b")))
	r.update(create(podOf("c", static("web"))))
	r.update(create(podOf("d", static("web"))))
	r.update(create(podOf("e")))
	require.Empty(t, r.running)
	require.Equal(t, StateWaiting, r.state("a"))
	require.Nil(t, r.pod("a").Pod, "INV-12")
	require.Equal(t, StateTerminationRequested, r.state("b"))
	known := r.known(podOf("a"), podOf("c"), podOf("d"))
	require.NotContains(t, known, types.UID("e"))
	require.Equal(t, KnownPod{State: StateTerminating, Undesired: true, HasConfig: true}, known["b"], "an accepted kill is not forgotten")
	require.Equal(t, KnownPod{State: StateSyncing, HasConfig: true, Static: true}, known["d"])
	r.do(func() { r.m.open(r.now) })
	require.Equal(t, CallSyncPod, r.call("a"))
	require.Equal(t, CallSyncTerminatingPod, r.call("b"))
	require.Equal(t, CallSyncPod, r.call("c"))
	require.Equal(t, StateWaiting, r.state("d"))
}

// Pods that came before Run begin in the order in which they came.
func TestOrderOfPodsBeforeRun(t *testing.T) {
	r := newShutRig(t)
	var came []types.UID
	for i := range 40 { // a small map may keep the order by chance
		uid := strconv.Itoa(i * 7 % 40)
		r.update(create(podOf(uid)))
		came = append(came, types.UID(uid))
	}
	r.m.open(r.now)
	var began []types.UID
	for _, c := range r.m.take().start {
		began = append(began, c.uid)
	}
	require.Equal(t, came, began)
}

// A call is cancelled at most once, whatever happens meanwhile.
func TestCancelledOnce(t *testing.T) {
	r := newRig(t)
	r.bring(podOf("a"), StateSyncing)
	for _, s := range []int64{20, 10} {
		r.update(kill(podOf("a"), KillOptions{GracePeriodSeconds: &s}))
	}
	r.known()
	require.Equal(t, []error{ErrTerminationRequested}, r.cancelled)
	r.end("a", false, context.Canceled)
	require.NoError(t, r.pod("a").LastError, "that was to be expected")
	for _, s := range []int64{5, 2} {
		r.update(kill(podOf("a"), KillOptions{GracePeriodSeconds: &s}))
	}
	require.Equal(t, []error{ErrTerminationRequested, ErrGracePeriodShortened}, r.cancelled)
	r.end("a", false, errBoom)
	require.ErrorIs(t, r.pod("a").LastError, errBoom)
	require.EqualValues(t, 2, r.work("a").GracePeriodSeconds)
	r.end("a", false, nil)
	r.update(kill(podOf("a"), KillOptions{GracePeriodSeconds: ptr(int64(1))}))
	require.Len(t, r.cancelled, 2, "SyncTerminatedPod is not cancelled by updates")
}

// A pod that is not desired counts as deleted: its content may go once it has
// stopped.
func TestNotDesiredIsDeleted(t *testing.T) {
	r := newRig(t)
	r.bring(podOf("a"), StateSyncing)
	r.known()
	require.True(t, r.pod("a").Deleted)
	r.end("a", false, nil)
	require.False(t, r.pod("a").ContentMayBeRemoved())
	r.end("a", false, nil)
	require.True(t, r.pod("a").ContentMayBeRemoved())
}

// The oldest start time survives when updates coalesce (1.3.9).
func TestStartTimeSurvives(t *testing.T) {
	early, late := time.Unix(500, 0), time.Unix(5000, 0)
	for _, starts := range [][]time.Time{{early, late}, {late, early}} {
		r := newRig(t)
		r.update(create(podOf("a")))
		newest := podOf("a")
		r.update(Update{Type: UpdateUpdate, Pod: podOf("a"), StartTime: starts[0]})
		r.update(Update{Type: UpdateSync, Pod: newest, StartTime: starts[1]})
		r.end("a", false, nil)
		require.Equal(t, early, r.work("a").StartTime)
		require.Same(t, newest, r.work("a").Pod)
		require.Equal(t, UpdateSync, r.work("a").Type)
	}
}

// What is done again without an update is a sync that begins now, or goes on with
// the kill.
func TestReplayedWork(t *testing.T) {
	replayed := func(r *rig, call Call, want UpdateType) {
		t.Helper()
		require.Equal(t, call, r.call("a"))
		require.Equal(t, want, r.work("a").Type)
		require.Equal(t, r.now, r.work("a").StartTime)
	}
	r := newRig(t)
	r.update(create(podOf("a")))
	r.end("a", false, nil)
	r.pass(time.Minute)
	replayed(r, CallSyncPod, UpdateSync)
	r.end("a", false, nil)
	r.known()
	replayed(r, CallSyncTerminatingPod, UpdateKill)
	r.end("a", false, errBoom)
	r.pass(10 * time.Second)
	replayed(r, CallSyncTerminatingPod, UpdateKill)
}

// That a call says it was cancelled is no error only if it was.
func TestCancellationAsError(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(r *rig)
		err    error
		want   error
	}{
		{"nobody cancelled", func(*rig) {}, context.Canceled, context.Canceled},
		{"cancelled", func(r *rig) { r.update(kill(podOf("a"))) }, context.Canceled, nil},
		{"cancelled, another error", func(r *rig) { r.update(kill(podOf("a"))) }, errBoom, errBoom},
		{"the agent stops", func(r *rig) { r.m.shut() }, context.Canceled, nil},
		{"the agent stops, another error", func(r *rig) { r.m.shut() }, errBoom, errBoom},
		{"cancelled, and the agent stops", func(r *rig) { r.update(kill(podOf("a"))); r.m.shut() }, context.Canceled, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.update(create(podOf("a")))
			tc.before(r)
			r.end("a", false, tc.err)
			require.Equal(t, tc.want, r.pod("a").LastError)
			require.Zero(t, r.pod("a").CancelledAt, "nothing that is cancelled runs")
		})
	}
}

// With somebody to ask, a due pod is asked for; one that is not desired is not.
func TestDuePods(t *testing.T) {
	r := newRig(t)
	r.m.asks = true
	a, b := podOf("a"), podOf("b")
	for _, pod := range []*v1.Pod{a, b} {
		r.update(create(pod))
		r.end(string(pod.UID), false, nil)
	}
	r.known(a)
	require.Equal(t, CallSyncTerminatingPod, r.call("b"))
	r.end("b", false, errBoom)
	r.update(orphan("o"))
	r.end("o", false, errBoom)
	r.pass(10 * time.Second)
	require.Equal(t, CallSyncTerminatingPod, r.call("b"), "nobody can be asked for it")
	require.Equal(t, CallSyncTerminatingOrphan, r.call("o"), "nor for what only the runtime knows")
	require.Empty(t, r.asked)
	r.pass(time.Minute)
	require.Equal(t, []types.UID{"a"}, r.asked)
	require.Equal(t, CallNone, r.call("a"))
	r.pass(time.Minute)
	require.Equal(t, []types.UID{"a", "a"}, r.asked, "asked again when nobody answers")
	r.update(resync(a))
	require.Equal(t, CallSyncPod, r.call("a"))
	require.Zero(t, r.pod("a").NextRetry)

	r.end("a", false, nil)
	for _, uid := range []string{"c", "d", "e"} {
		r.update(create(podOf(uid)))
		r.end(uid, false, nil)
	}
	r.asked = nil
	r.pass(2 * time.Minute)
	require.ElementsMatch(t, []types.UID{"a", "c", "d", "e"}, r.asked)
}
