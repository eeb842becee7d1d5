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
				r.Update(create(podOf("a", phase(v1.PodSucceeded))), true)
			}, "a", StateTerminated, CallSyncTerminatedPod},
		{"unknown, live phase, dead", nil,
			func(r *rig) { r.Update(create(a), true) }, "a", StateSyncing, CallSyncPod},
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

// A waiter that the runtime knows keeps its place until it is torn down, also
// before Run.
func TestObservedWaiterBeforeRun(t *testing.T) {
	for range 20 { // whatever the order of the map
		r := newShutRig(t)
		r.update(create(podOf("b", static("web"))))
		r.update(create(podOf("c", static("web"))))
		r.update(orphan("b"))
		r.Run()
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
	r.Run()
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
	r.Wait(time.Minute)
	replayed(r, CallSyncPod, UpdateSync)
	r.end("a", false, nil)
	r.known()
	replayed(r, CallSyncTerminatingPod, UpdateKill)
	r.end("a", false, errBoom)
	r.Wait(10 * time.Second)
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
