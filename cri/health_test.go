package cri

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// statusFunc is a function that is a StatusReader.
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
	require.Equal(t, Condition{NotReady, ReasonRuntimeDown, "no good status since 1970-01-01T00:16:40Z"}, down.RuntimeReady)
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

// watched runs a monitor on poll and returns it, with the changes it told, and
// what ends it.
func watched(t *testing.T, poll statusFunc) (m *HealthMonitor, changes func() []Health, stop func()) {
	var mu sync.Mutex
	var told []Health
	m, err := NewHealthMonitor(HealthConfig{Runtime: poll, OnChange: func(h Health) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, h)
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	changes = func() []Health {
		mu.Lock()
		defer mu.Unlock()
		return told
	}
	return m, changes, func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

func TestHealthMonitorPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var polls atomic.Int32
		m, changes, stop := watched(t, func(context.Context) (*runtimeapi.StatusResponse, error) {
			return statusOf(true, polls.Add(1) > 2), nil
		})
		begin := time.Now()
		synctest.Wait()
		require.Equal(t, begin, m.Health().LastGood, "the first poll is at once")
		require.Equal(t, "cni config uninitialized", m.Health().NetworkReady.Message)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 2, polls.Load())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.True(t, m.Health().NetworkReady.Ready())
		require.Len(t, changes(), 2, "one change at the first poll, one when the network came")
		stop()
		time.Sleep(time.Minute)
		require.EqualValues(t, 3, polls.Load(), "nothing runs after Run")
	})
}

// A runtime is down 30s after its last good poll, whether polls fail at once or
// hang, and that is told at that moment; a good poll ends it.
func TestHealthMonitorDownAndBack(t *testing.T) {
	for name, failing := range map[string]statusFunc{
		"fails": func(context.Context) (*runtimeapi.StatusResponse, error) {
			return nil, status.Error(codes.Unavailable, "no such file")
		},
		"hangs": func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				broken := false
				m, changes, stop := watched(t, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
					mu.Lock()
					b := broken
					mu.Unlock()
					if b {
						return failing(ctx)
					}
					return statusOf(true, true), nil
				})
				synctest.Wait()
				mu.Lock()
				broken = true
				mu.Unlock()
				time.Sleep(30*time.Second - 1)
				synctest.Wait()
				require.True(t, m.Health().RuntimeReady.Ready())
				require.Error(t, m.Health().Err)
				require.Len(t, changes(), 2, "well, then failing")
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				require.Equal(t, ReasonRuntimeDown, m.Health().RuntimeReady.Reason)
				require.Len(t, changes(), 3)
				require.Equal(t, m.Health(), changes()[2])

				mu.Lock()
				broken = false
				mu.Unlock()
				time.Sleep(20 * time.Second)
				synctest.Wait()
				require.True(t, m.Health().RuntimeReady.Ready())
				require.NoError(t, m.Health().Err)
				require.Len(t, changes(), 4)
				stop()
			})
		})
	}
}

func TestHealthMonitorNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, changes, stop := watched(t, func(context.Context) (*runtimeapi.StatusResponse, error) {
			return nil, errors.New("refused")
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, Unknown, m.Health().RuntimeReady.Readiness)
		require.EqualError(t, m.Health().Err, "refused")
		require.Len(t, changes(), 1)
		stop()
	})
}

// What Health returns belongs to the caller.
func TestHealthIsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := statusOf(true, true)
		reply.RuntimeHandlers = []*runtimeapi.RuntimeHandler{{Name: "runc"}}
		m, _, stop := watched(t, func(context.Context) (*runtimeapi.StatusResponse, error) { return reply, nil })
		synctest.Wait()
		m.Health().Handlers[0].Name = "changed"
		require.Equal(t, "runc", m.Health().Handlers[0].Name)
		stop()
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
		require.ErrorContains(t, m.Run(ctx), "Status has ignored its context")
		require.Equal(t, shutdownTimeout, time.Since(begin))
		close(release)
	})
}

func TestNewHealthMonitorRefuses(t *testing.T) {
	_, err := NewHealthMonitor(HealthConfig{})
	require.ErrorContains(t, err, "Runtime")
	_, err = NewHealthMonitor(HealthConfig{Runtime: statusFunc(func(context.Context) (*runtimeapi.StatusResponse, error) { return statusOf(true, true), nil }), Period: -1})
	require.ErrorContains(t, err, "Period")
}

// A client is bounded by its own deadline too, if that is shorter.
func TestHealthMonitorOnAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.hanging("Status", true)
		cfg := s.inMemory(t)
		cfg.RequestTimeout = 2 * time.Second
		m, err := NewHealthMonitor(HealthConfig{Runtime: dialRuntime(t, cfg)})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second+1)
		defer cancel()
		require.NoError(t, m.Run(ctx))
		var e *CallError
		require.ErrorAs(t, m.Health().Err, &e)
		require.Equal(t, 2*time.Second, e.Timeout)
	})
}
