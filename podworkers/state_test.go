package podworkers

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

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
	r.Run()
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
