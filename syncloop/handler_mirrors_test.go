package syncloop

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Whatever happens to a mirror pod makes its static pod look at it, if that has a
// worker. A pod that is not static has no mirror, whatever bears its name.
func TestHandlerMirrors(t *testing.T) {
	mirror := []*v1.Pod{mirrorPod("a", "m")}
	for name, c := range map[string]struct {
		pods []*v1.Pod
		want bool
	}{
		"no pod":       {nil, false},
		"static":       {[]*v1.Pod{testPod("a", "1", from("file"))}, true},
		"not admitted": {[]*v1.Pod{testPod("a", "refused", from("file"))}, false},
		"not static":   {[]*v1.Pod{testPod("a", "1", from("api"))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked, with, without []string
			if c.want {
				with, without = []string{"update 1 mirror m"}, []string{"update 1"}
			}
			h, w := newTestHandler(t, func(cfg *HandlerConfig) { cfg.Admit = refuse(&asked, "refused") })
			h.HandlePodAdditions(t.Context(), c.pods)
			w.take()
			h.HandlePodAdditions(t.Context(), mirror)
			require.Equal(t, with, w.take(), "added")
			h.HandlePodUpdates(t.Context(), mirror)
			require.Equal(t, with, w.take(), "updated")
			h.HandlePodRemoves(t.Context(), mirror)
			require.Equal(t, without, w.take(), "removed")
		})
	}
}
