package syncloop

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// granter grants a host name, in place of resources: "granted" to every pod.
type granter struct {
	asked   []string
	touched []types.UID
}

func (g *granter) Allocated(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Hostname = "-granted"
	return pod
}

func (g *granter) Retry(trigger string, active []*v1.Pod) []types.UID {
	g.asked = append(g.asked, trigger+" "+names(active))
	return g.touched
}

func (g *granter) take() []string {
	asked := g.asked
	g.asked = nil
	return asked
}

// What pods were granted is what workers hear of and what counts. What they ask for is what
// is decided about, but for those that are ending.
func TestHandlerAllocator(t *testing.T) {
	g := &granter{}
	h, w := newTestHandler(t, func(cfg *HandlerConfig) { cfg.Allocator = g })
	a, b := testPod("a", "1"), testPod("b", "2")
	h.HandlePodAdditions(t.Context(), []*v1.Pod{a, b})
	require.Equal(t, []string{"create 1", "create 2"}, w.take())
	require.Equal(t, "a-granted,b-granted", names(w.told))
	require.Equal(t, "a-granted,b-granted", names(h.ActivePods()))
	require.Equal(t, []string{"pods_added a,b"}, g.take())

	g.touched = []types.UID{"1", "2", "3"}
	h.HandlePodUpdates(t.Context(), []*v1.Pod{b})
	require.Equal(t, []string{"update 1", "update 2"}, w.take(), "each once, and nobody who is not there")
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
		require.Equal(t, []string{trigger + " b"}, g.take(), "it ends once")
	}
}
