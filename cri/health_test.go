package cri

import (
	"context"
	"errors"
	"fmt"
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

func TestHealthNext(t *testing.T) {
	now := time.Unix(1000, 0)
	require.Equal(t, "unknown", Health{}.RuntimeReady.Readiness.String())

	reply := statusOf(true, false)
	reply.RuntimeHandlers = []*runtimeapi.RuntimeHandler{
		{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}},
		{Name: ""},
	}
	reply.Features = &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true, UserNamespacesHostNetwork: true}
	good := Health{}.next(now, reply, nil)
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
	failed := good.next(now.Add(time.Second), nil, gone)
	require.Equal(t, gone, failed.Err)
	require.Equal(t, good.Handlers, failed.Handlers)
	require.Equal(t, now, failed.LastGood)
	require.True(t, failed.RuntimeReady.Ready(), "one failed poll does not count")

	notReady := failed.next(now.Add(2*time.Second), statusOf(false, true), nil)
	require.Equal(t, NotReady, notReady.RuntimeReady.Readiness)
	require.Equal(t, now, notReady.LastGood)
	require.NoError(t, notReady.Err)
}

func TestHealthAt(t *testing.T) {
	now := time.Unix(1000, 0)
	good := Health{}.next(now, statusOf(true, true), nil)
	require.Equal(t, good, good.at(now.Add(29999*time.Millisecond), 30*time.Second))
	down := good.at(now.Add(30*time.Second), 30*time.Second)
	require.Equal(t, Condition{NotReady, ReasonRuntimeDown, "no successful status call since 1970-01-01T00:16:40Z"}, down.RuntimeReady)
	require.True(t, down.NetworkReady.Ready())
	require.Equal(t, Unknown, Health{}.at(now, 30*time.Second).RuntimeReady.Readiness)
	notReady := good.next(now, statusOf(false, true), nil)
	require.Equal(t, notReady, notReady.at(now.Add(time.Hour), 30*time.Second), "the runtime's own reason stays")
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

func TestHealthDiffers(t *testing.T) {
	a := Health{}.next(time.Unix(1, 0), statusOf(true, true), nil)
	b := Health{}.next(time.Unix(2, 0), statusOf(true, true), nil)
	require.False(t, a.differs(b))
	require.True(t, a.differs(Health{}))
	require.True(t, a.differs(a.next(time.Unix(2, 0), nil, errors.New("x"))))
	require.True(t, a.differs(a.next(time.Unix(2, 0), statusOf(true, false), nil)))
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

func watch(t *testing.T, poll statusFunc) *watcher {
	w := &watcher{begin: time.Now()}
	var err error
	w.HealthMonitor, err = NewHealthMonitor(HealthConfig{Runtime: poll, OnChange: w.note})
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

// polled returns the outcome of a poll: w(ell), (no) n(etwork), f(ails), s(low), h(angs).
func polled(ctx context.Context, outcome byte) (*runtimeapi.StatusResponse, error) {
	switch outcome {
	case 'f':
		return nil, status.Error(codes.Unavailable, "no such file")
	case 'h':
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case 's':
		time.Sleep(4 * time.Second)
	}
	return statusOf(true, outcome != 'n'), nil
}

// The monitor polls at once and then every 5 s. The runtime is down exactly 30 s after its last
// good poll, whether polls fail or hang. A good poll ends that.
func TestHealthMonitorChanges(t *testing.T) {
	const (
		well    = "0s: runtime ready, network ready"
		failing = "5s: runtime ready, network ready, polls fail"
		down    = "30s: runtime not ready, network ready, polls fail"
	)
	for name, c := range map[string]struct {
		outcomes string // of polls; the last one repeats
		want     []string
		polls    int // in two minutes
	}{
		"well":             {"w", []string{well}, 25},
		"one poll fails":   {"wfw", []string{well, failing, "10s: runtime ready, network ready"}, 25},
		"two polls fail":   {"wfwfw", []string{well, failing, "10s: runtime ready, network ready", "15s: runtime ready, network ready, polls fail", "20s: runtime ready, network ready"}, 25},
		"four polls fail":  {"wffffw", []string{well, failing, "25s: runtime ready, network ready"}, 25},
		"seven polls fail": {"wfffffffw", []string{well, failing, down, "40s: runtime ready, network ready"}, 25},
		"all others fail":  {"wf", []string{well, failing, down}, 25},
		"others hang":      {"wh", []string{well, "20s: runtime ready, network ready, polls fail", down}, 9},
		"hang and return":  {"whhw", []string{well, "20s: runtime ready, network ready, polls fail", down, "35s: runtime ready, network ready"}, 21},
		"slow polls":       {"s", []string{"4s: runtime ready, network ready"}, 25},
		"never well":       {"f", []string{"0s: runtime unknown, network unknown, polls fail"}, 25},
		"network comes":    {"nnw", []string{"0s: runtime ready, network not ready", "10s: runtime ready, network ready"}, 25},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var polls atomic.Int32
				w := watch(t, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
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
