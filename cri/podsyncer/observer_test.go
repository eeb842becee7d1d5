package podsyncer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/pleg/plegtest"
)

// A panic in a sync does not hold back the pod's hints forever.
func TestPanicWhileActing(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		w.at("CreateContainer", 1, func(context.Context) error { panic("here") })
		w.run(time.Second, newPod("1", v1.RestartPolicyAlways, "a"))
		require.Empty(w.t, w.agent.observer.changing)
		w.Sleep(20 * time.Second)
		require.Equal(w.t, map[string][]uint32{"a": {0}}, w.Running())
		require.Len(w.t, w.Sandboxes(), 1)
	})
}

// The effects of a failed stop are observed at once, although the hints about it were delayed.
func TestFailedStopIsObserved(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		w.run(20*time.Second, newPod("1", v1.RestartPolicyAlways, "a", "b"))
		var stops atomic.Int32
		w.calls.Intercept(func(_ context.Context, call string, do func() error) error {
			if call != "StopContainer" && call != "StopPodSandbox" {
				return do()
			}
			if stops.Add(1) == 1 {
				return do()
			}
			return errors.New("cannot stop")
		})
		w.set()
		w.Sleep(time.Second)
		observed, err := w.agent.observer.Get("1")
		require.NoError(w.t, err)
		require.Len(w.t, observed.Running(), 1)
		w.calls.Intercept(nil)
		w.Sleep(2 * time.Minute)
		w.requireNothingLeft()
	})
}

// eventRuntime exposes its dirty function, so that tests can send hints.
type eventRuntime struct {
	*plegtest.Runtime
	dirty chan func(types.UID)
}

func (r eventRuntime) PodEvents(ctx context.Context, dirty func(types.UID)) error {
	r.dirty <- dirty
	<-ctx.Done()
	return ctx.Err()
}

// Hints about a pod wait while a worker changes it; hints about other pods do not.
func TestHintsWaitForTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := eventRuntime{Runtime: &plegtest.Runtime{}, dirty: make(chan func(types.UID), 1)}
		for _, uid := range []types.UID{"1", "2"} {
			rt.Set(observed.Pod{UID: uid, Sandboxes: []observed.Sandbox{{ID: "s" + string(uid), State: observed.SandboxReady}}})
		}
		o := newObserver()
		p, err := pleg.New(pleg.Config{Runtime: delayedHints{eventedRuntime: rt, delayHint: o.delayHint}, RelistPeriod: time.Hour, Threshold: 2 * time.Hour, EventedRelistPeriod: time.Hour, EventedThreshold: 2 * time.Hour})
		require.NoError(t, err)
		o.PLEG = p
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		dirty := <-rt.dirty
		time.Sleep(2 * time.Second)
		synctest.Wait()

		looks := func() int { synctest.Wait(); return rt.Inspections("1") + rt.Inspections("2") }
		before := looks()
		o.change("1", func() bool {
			dirty("1")
			time.Sleep(100 * time.Millisecond)
			require.Equal(t, before, looks(), "held back")
			dirty("2")
			time.Sleep(100 * time.Millisecond)
			require.Equal(t, before+1, looks(), "another pod's is not")
			return false
		})
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, before+2, looks(), "no change, so no other observation: the hint counts now")

		o.change("1", func() bool { return true })
		time.Sleep(time.Millisecond)
		_, err = o.sinceChanged(ctx, "1", time.Time{})
		require.NoError(t, err)
		require.Equal(t, before+3, looks(), "after a change only a new look will do")
		_, err = o.sinceChanged(ctx, "1", time.Now())
		require.NoError(t, err)
		require.Equal(t, before+3, looks(), "which then serves for a moment")
		time.Sleep(2 * maxObservationAge)
		_, err = o.sinceChanged(ctx, "1", time.Now())
		require.NoError(t, err)
		require.Equal(t, before+4, looks(), "but not for long")
		cancel()
		require.NoError(t, <-done)
	})
}
