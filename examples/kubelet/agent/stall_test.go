package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
)

// W30: the runtime answers no list, and a worker waits to see what its pod is
// doing. The deletion of the pod ends the wait, and the stop is issued by what is
// known.
func TestStopWhileObservationStalls(t *testing.T) {
	h := &hanging{}
	inWorld(t, fake.Config{Intercept: h.intercept}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		w.set(pod)
		w.start()
		w.sleep(20 * time.Second)
		stops := make(chan time.Time, 8)
		w.calls.Intercept(func(_ context.Context, call string, do func() error) error {
			if call == "StopContainer" {
				stops <- time.Now()
			}
			return do()
		})
		h.set(func(call string) bool { return strings.HasPrefix(call, "List") })
		changed := pod.DeepCopy()
		changed.Labels = map[string]string{"x": "y"}
		w.set(changed)
		w.sleep(5 * time.Second)
		require.Equal(w.t, "SyncPod: observing the runtime", w.report("pod-1").Step)
		require.Empty(w.t, stops)
		deleted := time.Now()
		w.set()
		w.sleep(5 * time.Second)
		require.Len(w.t, stops, 1)
		require.Less(w.t, (<-stops).Sub(deleted), time.Second)
		h.set(nil)
		w.sleep(3 * time.Minute)
		w.requireNothingLeft()
	})
}
