package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
)

// A syncer that panics does not leave the pod's hints held back.
func TestPanicWhileActing(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		w.intercept(func(_ context.Context, call string, do func() error) error {
			if call == "CreateContainer" {
				w.intercept(nil)
				panic("here")
			}
			return do()
		})
		w.set(podOf("1", v1.RestartPolicyAlways, "a"))
		w.start()
		w.sleep(time.Second)
		require.Empty(w.t, w.agent.observer.busy)
		w.sleep(20 * time.Second)
		require.Equal(w.t, map[string][]uint32{"a": {0}}, w.running())
		require.Len(w.t, w.sandboxes(), 1)
	})
}

// What a stop that fails has stopped all the same is seen at once, although the
// hints about it were held back.
func TestFailedStopIsLookedAt(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		w.set(podOf("1", v1.RestartPolicyAlways, "a", "b"))
		w.start()
		w.sleep(20 * time.Second)
		var stops atomic.Int32
		w.intercept(func(_ context.Context, call string, do func() error) error {
			if call != "StopContainer" && call != "StopPodSandbox" {
				return do()
			}
			if stops.Add(1) == 1 {
				return do()
			}
			return errors.New("cannot stop")
		})
		w.set()
		w.sleep(time.Second)
		observed, err := w.agent.observer.Get("1")
		require.NoError(w.t, err)
		require.Len(w.t, observed.Running(), 1)
		w.intercept(nil)
		w.sleep(2 * time.Minute)
		w.requireNothingLeft()
	})
}
