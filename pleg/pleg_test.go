package pleg_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

var errTest = errors.New("test")

// rig is a PLEG that runs on a runtime in memory, in a bubble.
type rig struct {
	*pleg.PLEG
	t    *testing.T
	rt   *plegtest.Runtime
	stop func() error

	mu     sync.Mutex
	events []pleg.Event
	health []error
}

func run(t *testing.T, cfg pleg.Config, rt *plegtest.Runtime) *rig {
	t.Helper()
	r := &rig{t: t, rt: rt}
	if cfg.Runtime == nil {
		cfg.Runtime = rt
	}
	record := cfg.OnEvent
	cfg.OnEvent = func(e pleg.Event) {
		if record != nil {
			record(e)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	cfg.OnHealth = func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.health = append(r.health, err)
	}
	p, err := pleg.New(cfg)
	require.NoError(t, err)
	r.PLEG = p
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = r.stop() })
	synctest.Wait()
	return r
}

// take returns the events since the last call, as "type id".
func (r *rig) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.events {
		out = append(out, string(e.Type)+" "+e.ID)
	}
	r.events = nil
	return out
}

func (r *rig) verdicts() []error {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.health)
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func observe(t *testing.T, r *rig, uid types.UID) *pleg.PodStatus {
	t.Helper()
	s, err := r.Observe(t.Context(), uid, time.Now())
	require.NoError(t, err)
	return s
}

func TestGenericLifecycle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		r := run(t, pleg.Config{}, rt)
		require.True(t, r.Complete())
		s, err := r.Get("web")
		require.NoError(t, err)
		require.True(t, s.Empty())
		require.Equal(t, r.ListedAt(), s.ObservedAt)

		rt.Set(plegtest.Pod("web", plegtest.Created("c-0")))
		time.Sleep(time.Second)
		require.Equal(t, []string{"started web-sandbox"}, r.take())
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		time.Sleep(time.Second)
		require.Equal(t, []string{"started c-0"}, r.take())
		require.Equal(t, 2, rt.Inspections("web"))

		time.Sleep(time.Minute)
		require.Empty(t, r.take())
		require.Equal(t, 2, rt.Inspections("web"), "an unchanged pod is not inspected")

		rt.Set(plegtest.Pod("web", plegtest.Exited("c-0", 7)))
		time.Sleep(time.Second)
		require.Equal(t, []string{"died c-0"}, r.take())
		s, err = r.Get("web")
		require.NoError(t, err)
		require.EqualValues(t, 7, s.Newest("c").ExitCode)
		require.Len(t, r.Pods(), 1)

		rt.Remove("web")
		time.Sleep(time.Second)
		require.Equal(t, []string{"removed c-0", "died web-sandbox", "removed web-sandbox"}, r.take())
		require.Empty(t, r.Pods())
		require.NoError(t, r.stop())
	})
}

// P2: a failed inspection withholds the events and the error is cached; the next
// list brings both right. A pod that goes away takes its error along.
func TestInspectionFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
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

		// It fails without a change: the recovery is one PodSync.
		rt.FailPod("web", plegtest.Fault{Err: errTest})
		_, err = r.Observe(t.Context(), "web", time.Now())
		require.ErrorIs(t, err, errTest)
		s, err = r.Get("web")
		require.ErrorIs(t, err, errTest)
		require.Len(t, s.Containers, 1, "the last good status is kept beside the error")
		rt.FailPod("web", plegtest.Fault{})
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"pod sync "}, r.take())

		// It fails and goes: the waiter is answered, the error is gone.
		rt.FailPod("web", plegtest.Fault{Hang: true})
		answer := make(chan *pleg.PodStatus, 1)
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

// P3: lists that fail do not count for health, and it recovers by itself.
func TestHealthFollowsLists(t *testing.T) {
	for name, fault := range map[string]plegtest.Fault{
		"fails": {Err: errTest},
		"hangs": {Hang: true},
		"deaf":  {Hang: true, Deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rt := &plegtest.Runtime{}
				r := run(t, pleg.Config{}, rt)
				require.NoError(t, r.Healthy())
				listed := r.ListedAt()
				rt.FailList(fault)
				time.Sleep(3 * time.Minute)
				require.NoError(t, r.Healthy())
				time.Sleep(time.Second)
				err := r.Healthy()
				require.ErrorIs(t, err, pleg.ErrUnhealthy)
				if name == "fails" {
					require.ErrorIs(t, err, errTest)
				} else {
					require.ErrorContains(t, err, "a list is in progress for")
				}
				require.Equal(t, listed, r.ListedAt())
				require.Len(t, r.verdicts(), 2)
				require.ErrorIs(t, r.verdicts()[1], pleg.ErrUnhealthy)

				// Looking at one pod works without lists.
				rt.Set(plegtest.Pod("web"))
				require.False(t, observe(t, r, "web").Empty())

				rt.FailList(plegtest.Fault{})
				time.Sleep(2 * time.Second)
				require.NoError(t, r.Healthy())
				require.Len(t, r.verdicts(), 3)
				require.Nil(t, r.verdicts()[2])
			})
		})
	}
}

// P4: a receiver that takes no events stops nothing, and every pod is delivered
// once it does.
func TestSlowReceiver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		const pods = 1500 // two events each, more than may wait
		for i := range pods {
			rt.Set(plegtest.Pod(types.UID(fmt.Sprint(i)), plegtest.Running(fmt.Sprintf("c%d-0", i))))
		}
		release := make(chan struct{})
		got := map[types.UID]int{}
		r := run(t, pleg.Config{OnEvent: func(e pleg.Event) { <-release; got[e.UID]++ }}, rt)
		time.Sleep(10 * time.Second)
		require.Greater(t, rt.Lists(), 5)
		require.NoError(t, r.Healthy())
		require.False(t, observe(t, r, "17").Empty())
		close(release)
		synctest.Wait()
		require.Len(t, got, pods)
	})
}

// P5: one pod that hangs, or many, hold up nobody else.
func TestHangingPods(t *testing.T) {
	for _, hanging := range []int{1, 20, 100} {
		t.Run(fmt.Sprint(hanging), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rt := &plegtest.Runtime{}
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

// P6: RequestReinspect is one PodSync with the next list; RequestRelist is a look
// at once and no event.
func TestRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		r := run(t, pleg.Config{}, rt)
		r.take()
		time.Sleep(1500 * time.Millisecond)
		r.RequestReinspect("web")
		require.Empty(t, r.take())
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, []string{"pod sync "}, r.take())
		time.Sleep(time.Minute)
		require.Empty(t, r.take())

		before := rt.Inspections("web")
		rt.FailPod("web", plegtest.Fault{Latency: 10 * time.Millisecond})
		for range 10 {
			r.RequestRelist("web")
		}
		synctest.Wait()
		for range 10 {
			r.RequestRelist("web") // after the look began: one more
		}
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, before+2, rt.Inspections("web"))
		require.Empty(t, r.take())
	})
}

// P7, INV-16: whoever has just acted sees it, without waiting for a period.
func TestObserveSeesWhatWasDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		r := run(t, pleg.Config{}, rt)
		start := time.Now()
		for i := range 100 {
			id := fmt.Sprintf("c-%d", i)
			rt.Set(plegtest.Pod("web", plegtest.Running(id)))
			acted := time.Now()
			s, err := r.Observe(t.Context(), "web", acted)
			require.NoError(t, err)
			require.Equal(t, id, s.Newest("c").ID.ID)
			require.False(t, s.ObservedAt.Before(acted))
		}
		require.Zero(t, time.Since(start), "no clock had to move")
		require.Equal(t, 100, rt.Inspections("web"))

		// What is in the cache is enough if it is new enough.
		acted := time.Now().Add(-time.Nanosecond)
		s, err := r.Observe(t.Context(), "web", acted)
		require.NoError(t, err)
		require.Equal(t, 100, rt.Inspections("web"))
		cached, err := r.Get("web")
		require.NoError(t, err)
		require.Same(t, cached, s)
		// The absence of a pod is known from the list.
		s, err = r.Observe(t.Context(), "other", time.Time{})
		require.NoError(t, err)
		require.True(t, s.Empty())
		require.Zero(t, rt.Inspections("other"))
	})
}

// A look in flight counts only if it began after the given moment; all others
// share the next one.
func TestObserveCoalesces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		rt.FailPod("web", plegtest.Fault{Latency: 100 * time.Millisecond})
		r := run(t, pleg.Config{RelistPeriod: time.Minute}, rt)
		began := time.Now()
		type got struct {
			s  *pleg.PodStatus
			at time.Duration
		}
		answers := make(chan got, 100)
		ask := func(after time.Time) {
			go func() {
				s, err := r.Observe(t.Context(), "web", after)
				if err == nil {
					answers <- got{s, time.Since(began)}
				}
			}()
			synctest.Wait()
		}
		ask(began)
		time.Sleep(50 * time.Millisecond)
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		ask(began.Add(-time.Nanosecond)) // the list began then: the pod was absent
		for range 20 {
			ask(time.Now())
		}
		time.Sleep(time.Second)
		require.Equal(t, 2, rt.Inspections("web"))
		require.Len(t, answers, 22)
		at := map[time.Duration]int{}
		for range 22 {
			a := <-answers
			at[a.at]++
			require.Equal(t, a.at <= 50*time.Millisecond, a.s.Empty())
		}
		require.Equal(t, map[time.Duration]int{50 * time.Millisecond: 1, 100 * time.Millisecond: 1, 200 * time.Millisecond: 20}, at)
	})
}

// Observe obeys its context, and nothing of it is left.
func TestObserveIsCancellable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		rt.Set(plegtest.Pod("web"))
		rt.FailList(plegtest.Fault{Hang: true})
		rt.FailPod("web", plegtest.Fault{Hang: true})
		r := run(t, pleg.Config{}, rt)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Observe(ctx, "web", time.Time{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "pod web")
		// The first list is not through; another pod can be observed.
		require.True(t, observe(t, r, "other").Empty())
		require.False(t, r.Complete())
		require.NoError(t, r.stop())
	})
}

// P8: neither the wall clock nor the runtime's clock decides anything.
func TestClocksDoNotMatter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		r := run(t, pleg.Config{}, rt)
		for i, skew := range []time.Duration{time.Hour, -time.Hour, -20 * time.Minute, 1000 * time.Hour} {
			pod := plegtest.Pod("web", plegtest.Running(fmt.Sprintf("c-%d", i)))
			pod.Containers[0].CreatedAt = time.Now().Add(skew)
			pod.Sandboxes[0].CreatedAt = time.Unix(0, time.Now().Add(skew).Unix()) // seconds for nanoseconds
			rt.Set(pod)
			// The clock was set back: what the caller remembers lies ahead.
			acted := time.Now().Add(10 * time.Minute).Round(0)
			s, err := r.Observe(t.Context(), "web", acted)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("c-%d", i), s.Newest("c").ID.ID)
		}
	})
}

// P14: the addresses of a pod outlive its network.
func TestIPsArePreserved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		r := run(t, pleg.Config{}, rt)
		before := observe(t, r, "web")
		rt.Update("web", func(s *pleg.PodStatus) {
			s.IPs, s.Sandboxes[0].IPs, s.Sandboxes[0].State = nil, nil, pleg.SandboxNotReady
			s.Containers[0].State = pleg.StateExited
		})
		after := observe(t, r, "web")
		require.Equal(t, []string{"10.0.0.1"}, after.IPs)
		require.Empty(t, after.Sandboxes[0].IPs)
		require.Equal(t, pleg.StateRunning, before.Containers[0].State, "what was handed out stays as it was")
	})
}

// A container that starts and dies between two looks is seen by what is left of it.
func TestShortLivedContainer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		r := run(t, pleg.Config{}, rt)
		r.take()
		rt.Set(plegtest.Pod("web", plegtest.Running("c-2"), plegtest.Exited("c-1", 3), plegtest.Exited("c-0", 1)))
		time.Sleep(time.Second)
		require.ElementsMatch(t, []string{"died c-0", "died c-1", "started c-2"}, r.take())
	})
}

func TestNotRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		rt.Set(plegtest.Pod("web"))
		p, err := pleg.New(pleg.Config{Runtime: rt})
		require.NoError(t, err)
		_, err = p.Observe(t.Context(), "web", time.Time{})
		require.ErrorIs(t, err, pleg.ErrNotRunning)
		require.ErrorIs(t, p.Healthy(), pleg.ErrNotRunning)
		p.RequestRelist("web")

		r := run(t, pleg.Config{}, rt)
		require.ErrorIs(t, r.Run(t.Context()), pleg.ErrAlreadyRunning)
		rt.FailPod("web", plegtest.Fault{Hang: true})
		failed := make(chan error, 1)
		go func() {
			_, err := r.Observe(t.Context(), "web", time.Now())
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, r.stop())
		require.ErrorIs(t, <-failed, pleg.ErrNotRunning)
		_, err = r.Observe(t.Context(), "web", time.Time{})
		require.ErrorIs(t, err, pleg.ErrNotRunning)
		_, err = r.Get("web")
		require.NoError(t, err, "a look that the end of Run cut short is no error of the pod")

		// It can run again, and does not take old knowledge for complete.
		rt.FailPod("web", plegtest.Fault{})
		rt.FailList(plegtest.Fault{Hang: true})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		require.False(t, r.Complete())
		require.False(t, observe(t, r, "web").Empty())
		cancel()
		require.NoError(t, <-done)
	})
}

// A runtime that ignores its contexts, and a callback that does not return, are
// named and do not hold Run up for longer than ShutdownTimeout.
func TestShutdownNamesWhatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &plegtest.Runtime{}
		rt.Set(plegtest.Pod("ok"))
		rt.Set(plegtest.Pod("deaf"))
		rt.FailPod("deaf", plegtest.Fault{Hang: true, Deaf: true})
		release := make(chan struct{})
		r := run(t, pleg.Config{OnEvent: func(pleg.Event) { <-release }}, rt)
		rt.FailList(plegtest.Fault{Hang: true, Deaf: true})
		time.Sleep(time.Minute)
		start := time.Now()
		err := r.stop()
		require.Equal(t, 10*time.Second, time.Since(start))
		require.ErrorContains(t, err, "ListPods (for")
		require.ErrorContains(t, err, "PodStatus of pod deaf (for 1m")
		require.ErrorContains(t, err, "OnEvent")
		require.NotContains(t, err.Error(), "pod ok")
		rt.FailList(plegtest.Fault{})
		rt.FailPod("deaf", plegtest.Fault{})
		close(release)
	})
}

func TestNewRefuses(t *testing.T) {
	rt := &plegtest.Runtime{}
	for field, cfg := range map[string]pleg.Config{
		"Runtime":          {},
		"RelistPeriod":     {Runtime: rt, RelistPeriod: -1},
		"MaxInspections":   {Runtime: rt, MaxInspections: -1},
		"Threshold":        {Runtime: rt, RelistPeriod: time.Hour},
		"EventedThreshold": {Runtime: rt, EventedThreshold: time.Minute},
	} {
		_, err := pleg.New(cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
}

// lying is a runtime that breaks its contract.
type lying struct {
	plegtest.Runtime
	status *pleg.PodStatus
}

func (l *lying) PodStatus(context.Context, types.UID) (*pleg.PodStatus, error) { return l.status, nil }

func TestContractBreaches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := &lying{}
		r := run(t, pleg.Config{Runtime: rt}, &rt.Runtime)
		_, err := r.Observe(t.Context(), "web", time.Now())
		require.ErrorContains(t, err, "no status and no error")
		rt.status = &pleg.PodStatus{UID: "other"}
		_, err = r.Observe(t.Context(), "web", time.Now())
		require.ErrorContains(t, err, "status of pod other")
	})
}
