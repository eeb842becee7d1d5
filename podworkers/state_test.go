package podworkers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// W27: table 1.11, column by column.
func TestQueries(t *testing.T) {
	const (
		no  = false
		yes = true
	)
	type answers struct {
		knownTerminated, couldHaveContainers, shouldBeFinished, requested, containersTerminating, runtimeRemoved bool
		content, contentEvicted, contentDeleted, mirror                                                          bool
	}
	waiting := answers{no, yes, no, no, no, no, no, no, no, no}
	syncing := waiting
	columns := []struct {
		state State
		want  answers
	}{
		{StateWaiting, waiting},
		{StateSyncing, syncing},
		{StateTerminationRequested, answers{no, yes, no, yes, no, no, no, yes, no, yes}},
		{StateTerminating, answers{no, yes, no, yes, yes, no, no, yes, no, yes}},
		{StateTerminated, answers{yes, no, no, yes, yes, yes, no, yes, yes, no}},
		{StateFinished, answers{yes, no, yes, yes, yes, yes, no, yes, yes, no}},
	}
	ask := func(r *rig) answers {
		s := r.pod("a")
		a := answers{
			s.KnownTerminated(), s.CouldHaveRunningContainers(), s.ShouldBeFinished(), s.TerminationRequested(),
			s.ContainersShouldBeTerminating(), s.RuntimeMayBeRemoved(), s.ContentMayBeRemoved(), no, no,
			r.m.mirrorTerminating("web_ns"),
		}
		s.Evicted = true
		a.contentEvicted = s.ContentMayBeRemoved()
		s.Evicted, s.Deleted = false, true
		a.contentDeleted = s.ContentMayBeRemoved()
		return a
	}
	for _, column := range columns {
		for _, desiredKnown := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, desired known: %v", column.state, desiredKnown), func(t *testing.T) {
				r := newRig(t)
				pod := podOf("a", static("web"))
				blocker := podOf("z", static("web"))
				if column.state == StateWaiting {
					r.update(create(blocker))
					r.update(create(pod))
				} else {
					r.bring(pod, column.state)
				}
				if desiredKnown {
					r.known(pod, blocker)
				}
				require.Equal(t, column.state, r.state("a"))
				require.Equal(t, column.want, ask(r))
			})
		}
	}
	t.Run("U0 and U1", func(t *testing.T) {
		r := newRig(t)
		require.Equal(t, answers{couldHaveContainers: yes}, ask(r))
		for range 2 { // INV-19
			r.known()
			require.Equal(t, answers{no, no, yes, no, yes, yes, yes, yes, yes, no}, ask(r))
		}
	})
}

// D2: a pod that finished without starting answers like any other finished one.
func TestFinishedWithoutStarting(t *testing.T) {
	r := newRig(t)
	r.update(create(podOf("z", static("web"))))
	r.update(create(podOf("a", static("web"))))
	r.update(kill(podOf("a", static("web"))))
	require.Equal(t, StateFinished, r.state("a"))
	require.True(t, r.pod("a").ContainersShouldBeTerminating())
	require.True(t, r.pod("a").ShouldBeFinished())
}

func TestKnownPods(t *testing.T) {
	r := newRig(t)
	r.bring(podOf("syncing"), StateSyncing)
	r.bring(podOf("requested"), StateTerminationRequested)
	r.bring(podOf("terminated"), StateTerminated)
	r.bring(podOf("finished"), StateFinished)
	r.update(orphan("orphan"))
	desired := []*v1.Pod{podOf("syncing"), podOf("requested"), podOf("terminated"), podOf("finished"), nil}
	require.Equal(t, KnownPod{State: StateSyncing, HasConfig: true}, r.known(desired...)["syncing"])
	require.Equal(t, KnownPod{State: StateTerminating, HasConfig: true}, r.known(desired...)["requested"])
	require.Equal(t, KnownPod{State: StateTerminated, HasConfig: true}, r.known(desired...)["terminated"])
	require.Equal(t, KnownPod{State: StateTerminated, HasConfig: true}, r.known(desired...)["finished"])
	require.Equal(t, KnownPod{State: StateTerminating, Undesired: true}, r.known(desired...)["orphan"])
}

func TestExplanations(t *testing.T) {
	r := newShutRig(t)
	a, b := podOf("a", static("web")), podOf("b", static("web"))
	r.update(create(podOf("api")))
	for _, pod := range []*v1.Pod{a, b, podOf("c", static("web")), podOf("d", static("web"))} {
		r.update(create(pod))
	}
	r.update(orphan("d"))
	for uid, want := range map[string]string{
		"api": "Run", "a": "Run",
		"b": "the static pod a with the same full name", "c": "the static pod b with the same full name",
		"d": "Run", // it is to be stopped, which does not wait for its turn
	} {
		require.Equal(t, want, r.pod(uid).WaitsFor, uid)
	}
	r.do(func() { r.m.open(r.now) })
	require.Equal(t, "SyncPod", r.pod("a").WaitsFor)
	require.Equal(t, "the static pod a with the same full name", r.pod("b").WaitsFor)
	r.end("a", false, errBoom)
	require.Equal(t, "the next attempt", r.pod("a").WaitsFor)
	require.Regexp(t, `^pod ns/web \(a\): Syncing since .*, waits for the next attempt, last error: boom, next attempt at `, r.pod("a").String())
	r.update(kill(a))
	r.update(create(a))
	r.end("a", false, errBoom)
	require.Equal(t, "the next attempt", r.pod("a").WaitsFor, "it is not finished yet")
	require.Equal(t, "State(7)", State(len(stateNames)).String())
	require.Equal(t, "Call(99)", Call(99).String())
}
