package pods

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg/observed"
)

// Pods in progress go first: with one slot, each pod is complete before the next gets its
// sandbox.
func TestBegunPodsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{})
		h.cfg.MaxConcurrentStarts = 1
		h.restart()
		h.runtime.before = func(context.Context, string, string) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		const n = 20
		done := make(chan time.Duration, n)
		begin := time.Now()
		for i := range n {
			pod := testPod("a", "b")
			pod.UID = types.UID(fmt.Sprint(i))
			go func() {
				result := h.m.SyncPod(t.Context(), SyncRequest{Pod: pod, Status: &observed.Pod{UID: pod.UID}})
				if result.Err() == nil {
					done <- time.Since(begin)
				}
			}()
		}
		var times []time.Duration
		for range n {
			times = append(times, <-done)
		}
		require.LessOrEqual(t, times[n/2].Seconds(), 0.65*times[n-1].Seconds())
		require.Equal(t, n*5*100*time.Millisecond, times[n-1], "no place is ever idle")
	})
}

// Starts that hang block other pods only until the limit, and free their slots once.
func TestHangingStartsLoseTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{})
		h.cfg.MaxConcurrentStarts = 2
		h.restart()
		h.runtime.before = func(ctx context.Context, call, target string) error {
			if call == "CreateContainer" && target == "hangs/0" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var hanging sync.WaitGroup
		sync := func(uid types.UID, container string) error {
			pod := testPod(container)
			pod.UID = uid
			result := h.m.SyncPod(ctx, SyncRequest{Pod: pod, Status: &observed.Pod{UID: uid}})
			return result.Err()
		}
		for i := range 5 {
			hanging.Go(func() { _ = sync(types.UID(fmt.Sprint(i)), "hangs") })
		}
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, sync("good", "a"))
		require.LessOrEqual(t, time.Since(begin), 3*placeLimit)
		cancel()
		hanging.Wait()
		require.Equal(t, 2, h.m.gate.free)
	})
}

// A cancelled waiter does not lose a slot.
func TestGateCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, placeLimit)
		require.NoError(t, g.acquire(t.Context(), false))
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 3)
		for i := range 3 {
			go func() { errs <- g.acquire(ctx, i == 0) }()
		}
		synctest.Wait()
		cancel()
		g.release()
		free := 0
		for range 3 {
			if err := <-errs; err == nil {
				free++
				g.release()
			}
		}
		require.LessOrEqual(t, free, 3)
		require.NoError(t, g.acquire(t.Context(), true))
		require.Zero(t, g.free)
		require.Empty(t, g.begun)
		require.Empty(t, g.fresh)
		g.release()
		require.Equal(t, 1, g.free)
		require.ErrorIs(t, g.acquire(ctx, true), context.Canceled)
	})
}
