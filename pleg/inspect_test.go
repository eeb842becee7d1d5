package pleg_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/pleg/plegtest"
)

// P2: after a failed inspection the error is cached and the events are delayed until the next
// list. A pod that goes away takes its error along (#24819).
func TestInspectionFails(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		rt.FailPod("web", plegtest.Fault{Err: errTest})
		r := run(t, pleg.Config{}, rt)
		require.Empty(t, r.take())
		s, err := r.Get("web")
		require.ErrorIs(t, err, errTest)
		require.ErrorContains(t, err, "pod web")
		require.True(t, s.Empty())
		require.Len(t, r.Pods(), 1, "a pod that cannot be inspected is a pod all the same")
		require.Equal(t, types.UID("web"), r.Health().Stale[0].UID)
		require.NoError(t, r.Healthy())

		rt.FailPod("web", plegtest.Fault{})
		time.Sleep(time.Second)
		require.Equal(t, []string{"started web-sandbox", "started c-0"}, r.take())
		_, err = r.Get("web")
		require.NoError(t, err)
		require.Empty(t, r.Health().Stale)

		// A failure without a change: the recovery is one PodSync.
		rt.FailPod("web", plegtest.Fault{Err: errTest})
		_, err = r.Observe(t.Context(), "web", time.Now())
		require.ErrorIs(t, err, errTest)
		s, err = r.Get("web")
		require.ErrorIs(t, err, errTest)
		require.Len(t, s.Containers, 1, "the last good status is kept beside the error")
		rt.FailPod("web", plegtest.Fault{})
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"pod sync "}, r.take())

		// A failure, then the pod goes away: the waiter gets its reply and the error is dropped.
		rt.FailPod("web", plegtest.Fault{Hang: true})
		answer := make(chan *observed.Pod, 1)
		go func() {
			s, _ := r.Observe(t.Context(), "web", time.Now())
			answer <- s
		}()
		synctest.Wait()
		rt.Remove("web")
		time.Sleep(time.Second)
		require.True(t, (<-answer).Empty())
		s, err = r.Get("web")
		require.NoError(t, err)
		require.True(t, s.Empty())
		require.Len(t, r.take(), 4)
		rt.FailPod("web", plegtest.Fault{})
	})
}

// P5: hanging pods, one or many, do not delay others.
func TestHangingPods(t *testing.T) {
	numbers := []int{1, 20, 100}
	if testing.Short() {
		numbers = numbers[:2]
	}
	for _, hanging := range numbers {
		t.Run(fmt.Sprint(hanging), func(t *testing.T) {
			bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
				for i := range 300 {
					uid := types.UID(fmt.Sprint(i))
					rt.Set(plegtest.Pod(uid, plegtest.Running(fmt.Sprintf("c%d-0", i))))
					fault := plegtest.Fault{Latency: 20 * time.Millisecond}
					if i < hanging {
						fault.Hang = true
					}
					rt.FailPod(uid, fault)
				}
				r := run(t, pleg.Config{}, rt)
				_, err := r.Get("0")
				require.ErrorIs(t, err, pleg.ErrNotInspected)
				time.Sleep(time.Duration(hanging/16+1) * 6 * time.Second)
				for i := hanging; i < 300; i++ {
					s, err := r.Get(types.UID(fmt.Sprint(i)))
					require.NoError(t, err)
					require.False(t, s.Empty())
				}
				time.Sleep(10 * time.Minute)
				require.NoError(t, r.Healthy())
				stale := r.Health().Stale
				require.Len(t, stale, hanging)
				require.Contains(t, stale[0].Reason, "context deadline exceeded")
				calls := rt.Inspections("0")
				require.Greater(t, calls, 2, "it is tried again")
				require.Less(t, calls, 10)

				for i := range hanging {
					rt.FailPod(types.UID(fmt.Sprint(i)), plegtest.Fault{})
				}
				time.Sleep(31 * time.Second)
				require.Empty(t, r.Health().Stale)
				s, err := r.Get("0")
				require.NoError(t, err)
				require.False(t, s.Empty())
			})
		})
	}
}

// invalidRuntime is a runtime that violates its contract.
type invalidRuntime struct {
	plegtest.Runtime
	status *observed.Pod
}

func (l *invalidRuntime) PodStatus(context.Context, types.UID) (*observed.Pod, error) {
	return l.status, nil
}

func TestContractBreaches(t *testing.T) {
	bubble(t, func(t *testing.T, _ *plegtest.Runtime) {
		l := &invalidRuntime{}
		r := run(t, pleg.Config{Runtime: l}, &l.Runtime)
		_, err := r.Observe(t.Context(), "web", time.Now())
		require.ErrorContains(t, err, "no status and no error")
		l.status = &observed.Pod{UID: "other"}
		_, err = r.Observe(t.Context(), "web", time.Now())
		require.ErrorContains(t, err, "status of pod other")
	})
}

// briefly is a runtime whose replies have unknown states for a while.
type briefly struct {
	plegtest.Runtime
	list, status atomic.Bool
}

func (b *briefly) ListPods(ctx context.Context) ([]observed.ListedPod, error) {
	pods, err := b.Runtime.ListPods(ctx)
	for i := range pods {
		if b.list.Load() {
			pods[i].Containers = []observed.ListedContainer{{ID: pods[i].Containers[0].ID, Name: pods[i].Containers[0].Name}}
		}
	}
	return pods, err
}

func (b *briefly) PodStatus(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	s, err := b.Runtime.PodStatus(ctx, uid)
	if err == nil && b.status.Load() {
		s.Containers[0].State = observed.StateUnknown
	}
	return s, err
}

// The cached state of a container is right within two seconds after a runtime has reported unknown
// states, in its list, its statuses, or both, even with a long period of lists.
func TestUnknownStatesAreBrief(t *testing.T) {
	for _, tc := range []struct {
		name         string
		list, status bool
		cfg          pleg.Config
	}{
		{"list", true, false, pleg.Config{}},
		{"status", false, true, pleg.Config{}},
		{"both", true, true, pleg.Config{}},
		{"rare lists", true, true, pleg.Config{RelistPeriod: time.Minute}},
		{"rare lists, status", false, true, pleg.Config{RelistPeriod: time.Minute}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &briefly{}
				b.Set(plegtest.Pod("web", plegtest.Running("c-0")))
				tc.cfg.Runtime = b
				b.list.Store(tc.list)
				b.status.Store(tc.status)
				r := run(t, tc.cfg, &b.Runtime)
				for _, lie := range []time.Duration{3 * time.Second, 40 * time.Second} {
					b.list.Store(tc.list)
					b.status.Store(tc.status)
					observe(t, r, "web")
					time.Sleep(lie)
					b.list.Store(false)
					b.status.Store(false)
					time.Sleep(2 * time.Second)
					s, err := r.Get("web")
					require.NoError(t, err)
					require.Equal(t, observed.StateRunning, s.Containers[0].State)
				}
			})
		})
	}
}
