package images

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestOrderOfPulls(t *testing.T) {
	plain := urgency{missing: 3, number: 9}
	with := func(change func(*urgency)) urgency {
		u := plain
		change(&u)
		return u
	}
	for name, first := range map[string]urgency{
		"a pod that runs":               with(func(u *urgency) { u.running, u.missing, u.number = true, 5, 10 }),
		"waited for long":               with(func(u *urgency) { u.waited, u.missing = maxQueueTime+1, 5 }),
		"lacks fewer images":            with(func(u *urgency) { u.missing, u.number = 2, 10 }),
		"came first":                    with(func(u *urgency) { u.number = 8 }),
		"not yet for long, but earlier": with(func(u *urgency) { u.waited, u.number = maxQueueTime, 8 }),
	} {
		require.Negative(t, first.compare(plain), name)
		require.Positive(t, plain.compare(first), name)
	}
	require.Zero(t, plain.compare(plain))
	late := urgency{missing: 9, waited: maxQueueTime + 2, number: 1}
	require.Negative(t, late.compare(urgency{missing: 1, waited: maxQueueTime + 1, number: 2}), "among the late ones only the order of arrival counts")
	require.Negative(t, urgency{running: true, missing: 9, number: 10}.compare(late))
}

// The queue runs by urgency, and a later request can increase a pull's urgency. A pod that lacks
// many images still gets its turn.
func TestQueueGoesByUrgency(t *testing.T) {
	serving(t, time.Minute, Config{QPS: -1}, func(t *testing.T, s *service, m *Manager) {
		ask := func(image string, missing int, running bool) {
			r := request(image, image, "")
			r.Missing, r.Running = missing, running
			ensure(t, m, r)
		}
		ask("first:1", 9, false)
		ask("five:1", 5, false)
		ask("two:1", 2, false)
		ask("lifted:1", 9, false)
		ask("runs:1", 9, true)
		ask("two-later:1", 2, false)
		r := request("another", "lifted:1", "")
		r.Missing = 1
		ensure(t, m, r)
		require.Equal(t, []string{"image five:1: queued (5th, 1 running) for 0s"}, lines(m, "five:1"))
		time.Sleep(4*time.Minute + 30*time.Second)
		ask("before:1", 1, false)
		time.Sleep(30*time.Second + 1)
		ask("after:1", 1, false)
		time.Sleep(7 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"first:1", "runs:1", "lifted:1", "two:1", "two-later:1", "before:1", "five:1", "after:1"}, s.pulled())
	})
}

// A pull that ignores its context delays its caller and other pulls for a limited time.
func TestStuckPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuckService{newService(), make(chan struct{})}
		m := newManager(t, Config{Service: s})
		w := ensure(t, m, request("a", "stuck:1", ""))
		w.cancel()
		time.Sleep(abandonLimit)
		require.True(t, w.returned())
		require.ErrorIs(t, w.err, context.Canceled)
		require.NoError(t, get(t, m, "b", "other:1", ""))
		require.Empty(t, m.Pulls())
		close(s.release)
		synctest.Wait()
		require.NoError(t, get(t, m, "a", "stuck:1", ""))
	})
}

// stuckService hangs in pulls of stuck:1 until release is closed.
type stuckService struct {
	*service
	release chan struct{}
}

func (s *stuckService) PullImage(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	if spec.Image == "stuck:1" {
		<-s.release
	}
	return s.service.PullImage(ctx, spec, auth, sandbox)
}

// FuzzQueue starts, ends and fails requests at random. It checks that every request gets a result,
// that pulls stay within the limit, that no pull runs without a request, and that no state
// remains.
func FuzzQueue(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { churn(t, rand.New(rand.NewPCG(seed, 7))) })
	})
}

func churn(t *testing.T, r *rand.Rand) {
	s := newService()
	limit := 1 + r.IntN(3)
	m := newManager(t, Config{Service: s, MaxParallelPulls: limit, QPS: -1, Credentials: byPod(map[string]string{"0": "one", "1": "one", "2": "two"})})
	policies := []v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent, v1.PullNever}
	var all []*waiter
	for range 60 {
		s.takes(time.Duration(r.IntN(90)) * time.Second)
		image := fmt.Sprintf("a:%d", r.IntN(4))
		switch r.IntN(6) {
		case 0:
			s.set(image, errors.New("no"))
		case 1:
			s.set(image, nil)
		case 2:
			if len(all) > 0 {
				w := all[r.IntN(len(all))]
				w.cancel()
				require.True(t, w.returned(), "whoever is called off returns at once")
			}
		default:
			req := request(fmt.Sprint(r.IntN(5)), image, policies[r.IntN(3)])
			req.Missing, req.Running = r.IntN(5), r.IntN(4) == 0
			all = append(all, ensure(t, m, req))
		}
		synctest.Wait()
		check(t, m, s, limit)
		time.Sleep(time.Duration(r.IntN(40)) * time.Second)
	}
	time.Sleep(24 * time.Hour)
	for _, w := range all {
		require.True(t, w.returned(), "all waiters get a result")
		var e *Error
		require.True(t, w.err == nil || errors.Is(w.err, context.Canceled) || errors.As(w.err, &e), "%v", w.err)
		w.cancel()
	}
	require.Empty(t, m.Pulls())
	running, _ := s.load()
	require.Zero(t, running)
}

func check(t *testing.T, m *Manager, s *service, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.LessOrEqual(t, s.running, limit)
	running := 0
	keys := map[string]bool{}
	for _, p := range m.Pulls() {
		require.NotEmpty(t, p.Pods, "a pull for nobody")
		if p.Position == 0 {
			running++
		}
	}
	require.Equal(t, s.running, running)
	m.queue.mu.Lock()
	defer m.queue.mu.Unlock()
	for f := range m.queue.running {
		require.False(t, keys[f.key], "two pulls of the same")
		keys[f.key] = true
	}
	if running < limit {
		for _, f := range m.queue.waiting {
			require.True(t, keys[f.key], "%s waits without need", f.image)
		}
	}
}
