package cri_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// dialled spares the calls that dialling makes.
const dialled = "1st Version: do\n1st ImageFsInfo: do\n"

// A runtime that hangs in a call holds its caller for the call's deadline and no
// longer, and learns that nobody waits any more.
func TestHangingRuntime(t *testing.T) {
	for _, c := range everyCall() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{script: dialled + c.name + ": hang"})
				ctx, limit := t.Context(), c.limit
				if limit == 0 {
					limit = 24 * time.Hour
					var cancel context.CancelFunc
					ctx, cancel = context.WithCancel(ctx)
					defer cancel()
					after(t, limit, cancel)
				}
				begin := time.Now()
				err := c.make(ctx, n)
				require.Equal(t, limit, time.Since(begin))
				e := requireCallFailed(t, err, c.name, c.objectOf(n))
				require.Equal(t, c.limit, e.Timeout)
				wrapped := fmt.Errorf("pod: %w", err)
				require.Equal(t, c.limit != 0, errors.Is(wrapped, context.DeadlineExceeded))
				require.Equal(t, c.limit == 0, errors.Is(wrapped, context.Canceled))
				require.Equal(t, c.name == "ExecSync", errors.Is(wrapped, cri.ErrExecTimeout))
				if c.limit != 0 {
					require.Equal(t, codes.DeadlineExceeded, status.Code(wrapped))
					require.ErrorContains(t, err, "no reply within "+c.limit.String())
				}

				time.Sleep(time.Millisecond) // gRPC's grain of deadlines
				synctest.Wait()
				calls := n.calls(c.name)
				seen := calls[len(calls)-1]
				require.Error(t, seen.Err, "the runtime knows that the call is over")
				require.InDelta(t, limit, seen.Duration, float64(time.Millisecond))
			})
		})
	}
}

// All deadlines go by RequestTimeout.
func TestRequestTimeout(t *testing.T) {
	const T = 3 * time.Second
	want := map[string]time.Duration{
		"RunPodSandbox": 2 * T, "StopContainer": T + 30*time.Second, "ExecSync": T + 7*time.Second,
		"CheckpointContainer": 5 * minute,
	}
	for _, c := range everyCall() {
		if c.limit == 0 {
			continue
		}
		if want[c.name] == 0 {
			want[c.name] = T
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{script: dialled + c.name + ": hang", client: cri.ClientConfig{RequestTimeout: T}})
				begin := time.Now()
				err := c.make(t.Context(), n)
				require.Equal(t, want[c.name], time.Since(begin))
				require.Equal(t, want[c.name], requireCallFailed(t, err, c.name, c.objectOf(n)).Timeout)
			})
		})
	}
}

// A runtime that is slow, but not too slow, gives what a fast one gives.
func TestSlowRuntime(t *testing.T) {
	for _, c := range everyCall() {
		if c.name == "GetContainerEvents" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			outcome := func(script string) (took time.Duration, code codes.Code) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, nodeConfig{script: script})
					begin := time.Now()
					err := c.make(t.Context(), n)
					took, code = time.Since(begin), status.Code(err)
				})
				return took, code
			}
			slow := c.limit - time.Millisecond
			if c.limit == 0 {
				slow = 24 * time.Hour
			}
			took, want := outcome("")
			require.Zero(t, took)
			require.NotEqual(t, codes.DeadlineExceeded, want)
			took, got := outcome(fmt.Sprintf("%s%s: do, then take %v", dialled, c.name, slow))
			require.Equal(t, slow, took)
			require.Equal(t, want, got)
		})
	}
}

// A runtime that does not care for the end of a call changes nothing for the
// caller, nor for other calls.
func TestDeafRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{}) // closed, it holds nobody
		n := newNode(t, nodeConfig{server: []grpc.ServerOption{grpc.ChainUnaryInterceptor(
			func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				if path.Base(info.FullMethod) == "StopContainer" {
					<-release
				}
				return handler(ctx, request)
			})}})
		c := callNamed(t, "StopContainer")
		for range 3 {
			begin := time.Now()
			err := c.make(t.Context(), n)
			require.Equal(t, c.limit, time.Since(begin))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			n.requireHealthy(t)
		}
		close(release)
		synctest.Wait()
		require.NoError(t, c.make(t.Context(), n))
	})
}

// The time that a request asks for is added, in the seconds that the runtime is told.
func TestAskedTime(t *testing.T) {
	stop := func(grace time.Duration) func(context.Context, *node) error {
		return func(ctx context.Context, n *node) error { return n.runtime.StopContainer(ctx, n.container, grace) }
	}
	exec := func(timeout time.Duration) func(context.Context, *node) error {
		return func(ctx context.Context, n *node) error {
			_, _, err := n.runtime.ExecSync(ctx, n.container, []string{"true"}, timeout)
			return err
		}
	}
	checkpoint := func(seconds int64) func(context.Context, *node) error {
		return func(ctx context.Context, n *node) error {
			return n.runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{ContainerId: n.container, Timeout: seconds})
		}
	}
	const never = 1000 * time.Hour
	for name, c := range map[string]struct {
		call string
		want time.Duration
		make func(context.Context, *node) error
	}{
		"no grace":               {"StopContainer", 2 * minute, stop(0)},
		"negative grace":         {"StopContainer", 2 * minute, stop(-time.Hour)},
		"a grace of an hour":     {"StopContainer", 2*minute + time.Hour, stop(time.Hour)},
		"a part of a second":     {"StopContainer", 2*minute + time.Second, stop(time.Millisecond)},
		"exec with a timeout":    {"ExecSync", 2*minute + 90*time.Second, exec(90 * time.Second)},
		"exec with half seconds": {"ExecSync", 2*minute + 1500*time.Millisecond, exec(1500 * time.Millisecond)},
		"exec without":           {"ExecSync", never, exec(0)},
		"exec with a negative":   {"ExecSync", never, exec(-1)},
		"a short checkpoint":     {"CheckpointContainer", 2 * minute, checkpoint(1)},
		"a checkpoint without":   {"CheckpointContainer", 2 * minute, checkpoint(0)},
		"a negative checkpoint":  {"CheckpointContainer", 2 * minute, checkpoint(-1)},
		"a long checkpoint":      {"CheckpointContainer", time.Hour, checkpoint(3600)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{script: c.call + ": hang"})
				ctx, cancel := context.WithTimeout(t.Context(), never)
				defer cancel()
				begin := time.Now()
				err := c.make(ctx, n)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, c.want, time.Since(begin))
				e := requireCallFailed(t, err, c.call, n.container)
				require.Equal(t, c.want != never, e.Timeout != 0, "whose deadline it was")
			})
		})
	}
}

// The caller's context ends every call, with the caller's own reason.
func TestCallerGivesUp(t *testing.T) {
	for _, c := range everyCall() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{script: dialled + c.name + ": hang"})
				gone := errors.New("the pod is gone")
				ctx, cancel := context.WithCancelCause(t.Context())
				after(t, time.Minute, func() { cancel(gone) })
				begin := time.Now()
				err := c.make(ctx, n)
				require.Equal(t, time.Minute, time.Since(begin))
				require.Zero(t, requireCallFailed(t, err, c.name, c.objectOf(n)).Timeout)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, gone)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				synctest.Wait()
				calls := n.calls(c.name)
				require.Equal(t, codes.Canceled, status.Code(calls[len(calls)-1].Err), "the runtime sees it")

				ended, stop := context.WithCancel(t.Context())
				stop()
				before := len(n.calls(c.name))
				require.ErrorIs(t, c.make(ended, n), context.Canceled)
				require.Len(t, n.calls(c.name), before, "a call whose context has ended is not made")

				brief, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				begin = time.Now()
				err = c.make(brief, n)
				require.Equal(t, time.Second, time.Since(begin))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Zero(t, requireCallFailed(t, err, c.name, c.objectOf(n)).Timeout, "the deadline was the caller's")
			})
		})
	}
}
