package syncloop

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// The failed termination of a removed pod is retried without housekeeping. Other removed pods and
// unknown pods are not synced.
func TestHandlerRetriesTermination(t *testing.T) {
	h, w := newTestHandler(t, nil)
	h.HandlePodRemoves(t.Context(), []*v1.Pod{testPod("a", "1")})
	require.Equal(t, []string{"kill 1"}, w.take())
	w.states["unknown"] = state(podworkers.StateTerminating)
	for _, c := range []struct {
		state podworkers.State
		why   Kind
		want  []string
	}{
		{podworkers.StateUnknown, SyncDue, nil},
		{podworkers.StateSyncing, SyncDue, nil},
		{podworkers.StateTerminating, PodDirty, nil},
		{podworkers.StateTerminating, SyncDue, []string{"sync 1"}},
	} {
		w.states["1"] = state(c.state)
		kinds := Kinds(0).With(c.why)
		h.HandlePodSyncs(t.Context(), []Sync{{UID: "1", Kinds: kinds}, {UID: "unknown", Kinds: kinds}})
		require.Equal(t, c.want, w.take(), "%v, %v", c.state, c.why)
	}
}

// A pod that returns while it terminates counts once for admission.
func TestHandlerPodReturns(t *testing.T) {
	h, w := newTestHandler(t, nil)
	pod := []*v1.Pod{testPod("a", "1")}
	w.states["1"] = state(podworkers.StateTerminating)
	for range 2 {
		h.HandlePodAdditions(t.Context(), pod)
		require.Equal(t, "a", names(h.ActivePods()))
		h.HandlePodRemoves(t.Context(), pod)
		require.Equal(t, "a", names(h.ActivePods()))
		require.Equal(t, []string{"create 1", "kill 1"}, w.take())
	}
}

// A mirror pod makes its static pod sync (see L10.txt), unless that has no worker. Other pods have
// no mirror pods.
func TestHandlerIgnoresMirrorsWithoutStaticPod(t *testing.T) {
	mirror := []*v1.Pod{mirrorPod("a", "m")}
	for name, pods := range map[string][]*v1.Pod{
		"no pod": nil, "not admitted": {testPod("a", "refused", from("file"))}, "not static": {testPod("a", "1", from("api"))},
	} {
		var calls []string
		h, w := newTestHandler(t, func(cfg *HandlerConfig) { cfg.Admit = admitterRefusing(&calls, "refused") })
		h.HandlePodAdditions(t.Context(), pods)
		w.take()
		h.HandlePodAdditions(t.Context(), mirror)
		h.HandlePodUpdates(t.Context(), mirror)
		h.HandlePodRemoves(t.Context(), mirror)
		require.Empty(t, w.take(), name)
	}
}

// fakeAllocator is an Allocator that allocates the host name "granted" to every pod, in place of
// resources.
type fakeAllocator struct {
	retries []string
	touched []types.UID
}

func (g *fakeAllocator) Allocated(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Hostname = "-granted"
	return pod
}

func (g *fakeAllocator) Retry(trigger string, active []*v1.Pod) []types.UID {
	g.retries = append(g.retries, trigger+" "+names(active))
	return g.touched
}

func (g *fakeAllocator) take() []string {
	retries := g.retries
	g.retries = nil
	return retries
}

// Workers and admission get the allocated version of a pod. Retry gets the desired version, except
// for ending pods.
func TestHandlerAllocator(t *testing.T) {
	g := &fakeAllocator{}
	h, w := newTestHandler(t, func(cfg *HandlerConfig) { cfg.Allocator = g })
	a, b := testPod("a", "1"), testPod("b", "2")
	h.HandlePodAdditions(t.Context(), []*v1.Pod{a, b})
	require.Equal(t, []string{"create 1", "create 2"}, w.take())
	require.Equal(t, "a-granted,b-granted", names(w.updated))
	require.Equal(t, "a-granted,b-granted", names(h.ActivePods()))
	require.Equal(t, []string{"pods_added a,b"}, g.take())

	g.touched = []types.UID{"1", "2", "3"}
	h.HandlePodUpdates(t.Context(), []*v1.Pod{b})
	require.Equal(t, []string{"update 1", "update 2"}, w.take(), "each pod once, and no unknown pod")
	require.Equal(t, []string{"pod_updated a,b"}, g.take())

	g.touched = nil
	w.states["1"] = podworkers.PodState{State: podworkers.StateTerminating}
	require.NoError(t, h.HandlePodCleanups(t.Context()))
	require.Equal(t, []string{"periodic_retry a-granted,b"}, g.take())
	h.HandlePodRemoves(t.Context(), []*v1.Pod{a})
	require.Equal(t, []string{"pods_removed b,a-granted"}, g.take())

	delete(w.states, "1")
	for _, trigger := range []string{"pod_terminated", "periodic_retry"} {
		require.NoError(t, h.HandlePodCleanups(t.Context()))
		require.Equal(t, []string{trigger + " b"}, g.take(), "the termination counts once")
	}
}
