package syncloop

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
)

// A removed pod whose stop failed is tried again although no housekeeping runs. One that
// is not to stop, and whatever the handler does not know, is nobody's to sync.
func TestHandlerRetriesLeaving(t *testing.T) {
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.RemoveGrace = func(*v1.Pod) *int64 { g := int64(7); return &g }
	})
	h.HandlePodRemoves(t.Context(), []*v1.Pod{testPod("a", "1")})
	require.Equal(t, []string{"kill 1 grace 7"}, w.take())
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

// A pod that comes back while it still terminates holds its resources once.
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
