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

// W29: the end of a call from before the pod was forgotten has no effect.
func TestStaleEndIsIgnored(t *testing.T) {
	r := newRig(t)
	r.bringTo(podOf("a"), StateTerminated)
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

// Pods that came before Run begin in order of arrival.
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

// A call that is repeated without an update has type Sync, or Kill if the pod terminates.
func TestReplayedWork(t *testing.T) {
	replayed := func(r *rig, call Call, want UpdateType) {
		t.Helper()
		require.Equal(t, call, r.call("a"))
		require.Equal(t, want, r.work("a").Type)
		require.Equal(t, r.now, r.work("a").StartTime)
		require.Equal(t, call == CallSyncTerminatingPod, r.work("a").GraceFromSpec)
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

// An error that claims a cancellation is expected only if the call was cancelled.
func TestCancellationAsError(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(r *rig)
		err    error
		want   error
	}{
		{"not cancelled", func(*rig) {}, context.Canceled, context.Canceled},
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
			require.Zero(t, r.pod("a").CancelledAt, "no cancelled call runs")
		})
	}
}

func TestKnownPods(t *testing.T) {
	r := newRig(t)
	r.bringTo(podOf("syncing"), StateSyncing)
	r.bringTo(podOf("requested"), StateTerminationRequested)
	r.bringTo(podOf("terminated"), StateTerminated)
	r.bringTo(podOf("finished"), StateFinished)
	r.bringTo(podOf("static", static("web")), StateSyncing)
	r.update(orphan("orphan"))
	desired := []*v1.Pod{podOf("static", static("web")), podOf("syncing"), podOf("requested"), podOf("terminated"), podOf("finished"), nil}
	require.Equal(t, KnownPod{State: StateSyncing, HasConfig: true, Static: true}, r.known(desired...)["static"])
	require.Equal(t, KnownPod{State: StateSyncing, HasConfig: true}, r.known(desired...)["syncing"])
	require.Equal(t, KnownPod{State: StateTerminating, HasConfig: true}, r.known(desired...)["requested"])
	require.Equal(t, KnownPod{State: StateTerminated, HasConfig: true}, r.known(desired...)["terminated"])
	require.Equal(t, KnownPod{State: StateTerminated, HasConfig: true}, r.known(desired...)["finished"])
	require.Equal(t, KnownPod{State: StateTerminating, Undesired: true}, r.known(desired...)["orphan"])
}

// An error counts even if terminal is true.
func TestTerminalWithAnError(t *testing.T) {
	r := newRig(t)
	r.bringTo(podOf("a"), StateSyncing)
	r.end("a", true, errBoom)
	require.Equal(t, StateSyncing, r.state("a"))
	require.Equal(t, CallNone, r.call("a"))
}

func TestNames(t *testing.T) {
	require.Equal(t, "State(7)", State(len(stateNames)).String())
	require.Equal(t, "Call(99)", Call(99).String())
}
