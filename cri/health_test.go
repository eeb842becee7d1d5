package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/run"
)

type statusFunc func(context.Context) (*runtimeapi.StatusResponse, error)

func (f statusFunc) Status(ctx context.Context, _ bool) (*runtimeapi.StatusResponse, error) {
	return f(ctx)
}

func statusOf(runtime, network bool) *runtimeapi.StatusResponse {
	r := goodStatus()
	r.Status.Conditions[0].Status = runtime
	r.Status.Conditions[1].Status = network
	if !network {
		r.Status.Conditions[1].Reason, r.Status.Conditions[1].Message = "NetworkPluginNotReady", "cni config uninitialized"
	}
	return r
}

func TestHealthAfterPolls(t *testing.T) {
	now := time.Unix(1000, 0)
	require.Equal(t, "unknown", Health{}.RuntimeReady.Readiness.String())

	reply := statusOf(true, false)
	reply.RuntimeHandlers = []*runtimeapi.RuntimeHandler{
		{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}},
		{Name: ""},
	}
	reply.Features = &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true, UserNamespacesHostNetwork: true}
	good := Health{}.good(now, reply)
	require.Equal(t, Health{
		LastGood:     now,
		RuntimeReady: Condition{Readiness: Ready},
		NetworkReady: Condition{NotReady, "NetworkPluginNotReady", "cni config uninitialized"},
		Handlers:     []Handler{{}, {"runc", true, true}},
		Features:     Features{true, true},
	}, good)
	runc, ok := good.Handler("runc")
	require.True(t, ok)
	require.True(t, runc.UserNamespaces)
	_, ok = good.Handler("kata")
	require.False(t, ok)

	gone := errors.New("gone")
	failed := good.failed(now.Add(time.Second), now.Add(time.Second), gone, time.Minute)
	require.Equal(t, gone, failed.Err)
	require.Equal(t, good.Handlers, failed.Handlers)
	require.Equal(t, now, failed.LastGood)
	require.True(t, failed.RuntimeReady.Ready(), "one failed poll does not count")

	notReady := failed.good(now.Add(2*time.Second), statusOf(false, true))
	require.Equal(t, NotReady, notReady.RuntimeReady.Readiness)
	require.Equal(t, now, notReady.LastGood)
	require.NoError(t, notReady.Err)
}

// A runtime is down when a poll fails that ends 30 s after the start of the first failed poll. A
// single failed poll, a gap without polls, and the runtime's own reason do not change.
func TestHealthDown(t *testing.T) {
	const limit = 30 * time.Second
	lastGood := time.Unix(1000, 0)
	gone := errors.New("gone")
	type poll struct {
		began, ended time.Duration // after the last good poll
	}
	for name, c := range map[string]struct {
		failed []poll
		down   bool
	}{
		"too short":                {[]poll{{5 * time.Second, 5 * time.Second}, {34 * time.Second, 35*time.Second - 1}}, false},
		"long enough":              {[]poll{{5 * time.Second, 5 * time.Second}, {35 * time.Second, 35 * time.Second}}, true},
		"hanging":                  {[]poll{{5 * time.Second, 20 * time.Second}, {20 * time.Second, 35 * time.Second}}, true},
		"one poll, long":           {[]poll{{5 * time.Second, time.Hour}}, false},
		"one poll, late":           {[]poll{{time.Hour, time.Hour}}, false},
		"began before a good poll": {[]poll{{-20 * time.Second, time.Second}, {10 * time.Second, 29 * time.Second}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := Health{}.good(lastGood, statusOf(true, true))
			own := h.good(lastGood, statusOf(false, true))
			never := Health{}
			for _, p := range c.failed {
				began, ended := lastGood.Add(p.began), lastGood.Add(p.ended)
				h = h.failed(began, ended, gone, limit)
				own = own.failed(began, ended, gone, limit)
				never = never.failed(began, ended, gone, limit)
			}
			want := Condition{Readiness: Ready}
			if c.down {
				want = Condition{NotReady, ReasonRuntimeDown, "no successful status call since 1970-01-01T00:16:40Z"}
			}
			require.Equal(t, want, h.RuntimeReady)
			require.True(t, h.NetworkReady.Ready())
			require.Empty(t, own.RuntimeReady.Reason, "the runtime's own condition stays")
			require.Equal(t, Unknown, never.RuntimeReady.Readiness)
		})
	}
}

func TestConditionString(t *testing.T) {
	for want, c := range map[string]Condition{
		"ready": {Readiness: Ready},
		"not ready: NetworkPluginNotReady: cni plugin not initialized": {Readiness: NotReady, Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"},
		"unknown: broken pipe": {Message: "broken pipe"},
	} {
		require.Equal(t, want, c.String())
	}
}

// A runtime's reason has at most 1 KiB in a condition, its message at most 4 KiB.
func TestConditionIsBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<19)
	reply := statusOf(false, true)
	reply.Status.Conditions[0].Reason, reply.Status.Conditions[0].Message = long, long
	got := Health{}.good(time.Unix(1, 0), reply).RuntimeReady
	require.Equal(t, Condition{NotReady, long[:1<<10], long[:4<<10]}, got)
}

func TestHealthDiffers(t *testing.T) {
	a := Health{}.good(time.Unix(1, 0), statusOf(true, true))
	b := Health{}.good(time.Unix(2, 0), statusOf(true, true))
	require.False(t, a.differs(b))
	require.True(t, a.differs(Health{}))
	require.True(t, a.differs(a.failed(time.Unix(2, 0), time.Unix(2, 0), errors.New("x"), time.Minute)))
	require.True(t, a.differs(a.good(time.Unix(2, 0), statusOf(true, false))))
	withHandlers := a
	withHandlers.Handlers = []Handler{{Name: "runc"}}
	require.True(t, a.differs(withHandlers))
}

type watcher struct {
	*HealthMonitor
	begin   time.Time
	stop    func()
	mu      sync.Mutex
	changes []string // time since begin, and the health
}

func watch(t *testing.T, poll statusFunc) *watcher { return watchEvery(t, 0, poll) }

func watchEvery(t *testing.T, period time.Duration, poll statusFunc) *watcher {
	w := &watcher{begin: time.Now()}
	var err error
	w.HealthMonitor, err = NewHealthMonitor(HealthConfig{Runtime: poll, Period: period, OnChange: w.note})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	w.stop = func() {
		cancel()
		require.NoError(t, <-ended)
	}
	return w
}

func (w *watcher) note(h Health) {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := ""
	if h.Err != nil {
		failed = ", polls fail"
	}
	w.changes = append(w.changes, fmt.Sprintf("%v: runtime %v, network %v%s",
		time.Since(w.begin), h.RuntimeReady.Readiness, h.NetworkReady.Readiness, failed))
}

// polled returns the outcome of a poll: w(ell), (no) n(etwork), f(ails), s(low), h(angs),
// z (fails after a suspension of 55 s).
func polled(ctx context.Context, outcome byte) (*runtimeapi.StatusResponse, error) {
	switch outcome {
	case 'f':
		return nil, status.Error(codes.Unavailable, "no such file")
	case 'h':
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case 's':
		time.Sleep(4 * time.Second)
	case 'z':
		time.Sleep(55 * time.Second)
		return nil, status.Error(codes.DeadlineExceeded, "too late")
	}
	return statusOf(true, outcome != 'n'), nil
}

// The monitor polls at once and then every 5 s. The runtime is down 30 s after the first failed poll
// began, if polls hang, and the time of a reconnection later, if they fail. A good poll ends that.
func TestHealthMonitorChanges(t *testing.T) {
	const (
		well    = "0s: runtime ready, network ready"
		failing = "5s: runtime ready, network ready, polls fail"
		down    = "38.6s: runtime not ready, network ready, polls fail"
		hanging = "35s: runtime not ready, network ready, polls fail"
	)
	for name, c := range map[string]struct {
		outcomes string // of polls; the last one repeats
		want     []string
		polls    int // in two minutes
		period   time.Duration
	}{
		"well":             {"w", []string{well}, 25, 0},
		"one poll fails":   {"wfw", []string{well, failing, "10s: runtime ready, network ready"}, 25, 0},
		"two polls fail":   {"wfwfw", []string{well, failing, "10s: runtime ready, network ready", "15s: runtime ready, network ready, polls fail", "20s: runtime ready, network ready"}, 25, 0},
		"four polls fail":  {"wffffw", []string{well, failing, "25s: runtime ready, network ready"}, 25, 0},
		"eight polls fail": {"wffffffffw", []string{well, failing, down, "43.6s: runtime ready, network ready"}, 25, 0},
		"all others fail":  {"wf", []string{well, failing, down}, 25, 0},
		"others hang":      {"wh", []string{well, "20s: runtime ready, network ready, polls fail", hanging}, 9, 0},
		"hang and return":  {"whhhw", []string{well, "20s: runtime ready, network ready, polls fail", hanging, "50s: runtime ready, network ready"}, 19, 0},
		"slow polls":       {"s", []string{"4s: runtime ready, network ready"}, 25, 0},
		"never well":       {"f", []string{"0s: runtime unknown, network unknown, polls fail"}, 25, 0},
		"network comes":    {"nnw", []string{"0s: runtime ready, network not ready", "10s: runtime ready, network ready"}, 25, 0},
		"suspended":        {"wzfw", []string{well, "1m0s: runtime ready, network ready, polls fail", "1m5s: runtime ready, network ready"}, 15, 0},
		"rare polls":       {"w", []string{well}, 3, time.Minute},
		"rare polls fail":  {"wf", []string{well, "1m0s: runtime ready, network ready, polls fail", "1m33.6s: runtime not ready, network ready, polls fail"}, 3, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var polls atomic.Int32
				w := watchEvery(t, c.period, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
					poll := int(polls.Add(1))
					return polled(ctx, c.outcomes[min(poll, len(c.outcomes))-1])
				})
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				counted := polls.Load()
				w.stop()
				stopped := polls.Load()
				time.Sleep(time.Minute)
				require.EqualValues(t, c.polls, counted)
				require.Equal(t, stopped, polls.Load(), "nothing runs after Run")
				require.Equal(t, c.want, w.changes)
			})
		})
	}
}

// A runtime that is absent or hangs for DownAfter stays ready, also if the client reconnects as late
// as it can.
func TestShortAbsenceIsNotShown(t *testing.T) {
	for first := time.Millisecond; first < 10*time.Second; first += 333 * time.Millisecond {
		for _, hangs := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				w := watch(t, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
					last := first + 30*time.Second
					if !hangs {
						last += reconnectMax * 6 / 5
					}
					if at := time.Since(begin); at < first || at >= last {
						return statusOf(true, true), nil
					}
					if !hangs {
						return polled(ctx, 'f')
					}
					select {
					case <-time.After(last - time.Since(begin)):
						return statusOf(true, true), nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				})
				time.Sleep(time.Minute)
				w.stop()
				require.NotContains(t, fmt.Sprint(w.changes), "runtime not ready", "absent from %v, hangs: %t", first, hangs)
				require.Contains(t, fmt.Sprint(w.changes), "polls fail")
			})
		}
	}
}

// Poll has its result at once, and reports a change. Its failure alone takes no runtime down.
func TestHealthMonitorPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outcome atomic.Int32
		outcome.Store('n')
		w := watch(t, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
			return polled(ctx, byte(outcome.Load()))
		})
		synctest.Wait()
		outcome.Store('w')
		require.NoError(t, w.Poll(t.Context()))
		require.True(t, w.Health().NetworkReady.Ready())
		synctest.Wait()
		outcome.Store('f')
		require.Error(t, w.Poll(t.Context()))
		require.True(t, w.Health().RuntimeReady.Ready())
		w.stop()
		require.Contains(t, w.changes[1], "0s: runtime ready, network ready")
	})
}

// The result of Health belongs to the caller.
func TestHealthIsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := statusOf(true, true)
		reply.RuntimeHandlers = []*runtimeapi.RuntimeHandler{{Name: "runc"}}
		w := watch(t, func(context.Context) (*runtimeapi.StatusResponse, error) { return reply, nil })
		synctest.Wait()
		w.Health().Handlers[0].Name = "changed"
		require.Equal(t, "runc", w.Health().Handlers[0].Name)
		w.stop()
	})
}

func TestHealthMonitorNamesAStatusThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		m, err := NewHealthMonitor(HealthConfig{Runtime: statusFunc(func(context.Context) (*runtimeapi.StatusResponse, error) {
			<-release
			return statusOf(true, true), nil
		})})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		err = m.Run(ctx)
		require.ErrorIs(t, err, run.ErrShutdownTimeout)
		require.ErrorContains(t, err, "Status")
		require.Equal(t, shutdownTimeout, time.Since(begin))
		require.ErrorIs(t, m.Run(ctx), ErrAlreadyRun)
		close(release)
	})
}

func TestNewHealthMonitorRefuses(t *testing.T) {
	_, err := NewHealthMonitor(HealthConfig{})
	require.ErrorContains(t, err, "Runtime")
	_, err = NewHealthMonitor(HealthConfig{Runtime: statusFunc(func(context.Context) (*runtimeapi.StatusResponse, error) { return statusOf(true, true), nil }), Period: -1})
	require.ErrorContains(t, err, "Period")
}
