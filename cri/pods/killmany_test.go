package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// largePod returns a pod with very many containers, and a status with all of them running. The
// fake does not have them, so each stop succeeds as not found.
func largePod(i, containers int) (*v1.Pod, *observed.Pod) {
	var names []string
	for c := range containers {
		names = append(names, fmt.Sprint("c", c))
	}
	pod := testPod(names...)
	pod.Name, pod.UID = fmt.Sprint("pod", i), types.UID(fmt.Sprint("uid", i))
	status := &observed.Pod{UID: pod.UID}
	for _, name := range names {
		status.Containers = append(status.Containers, container(name, observed.StateRunning))
	}
	return pod, status
}

// load counts concurrent calls, and records the time of the last call.
type load struct {
	mu                sync.Mutex
	called, now, most int
	last              time.Time
}

func (l *load) call(wait func()) {
	l.mu.Lock()
	l.called, l.now, l.last = l.called+1, l.now+1, time.Now()
	l.most = max(l.most, l.now)
	l.mu.Unlock()
	wait()
	l.mu.Lock()
	l.now--
	l.mu.Unlock()
}

// stops makes stops take some time in the runtime, and fail.
func (l *load) stops(takes time.Duration, fail error) func(context.Context, string, string) error {
	return func(ctx context.Context, call, _ string) error {
		if call != "StopContainer" {
			return nil
		}
		l.call(func() { run.Sleep(ctx, takes) })
		return fail
	}
}

// The stops of very many containers are bounded, so that the runtime has time for other calls.
// Each container still gets its stop soon, also if all stops are slow.
func TestStopsAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		pods, containers int
		takes            time.Duration
		most             int           // at a time
		within           time.Duration // until the last stop
	}{
		"one pod":            {1, 100, 100 * time.Millisecond, 16, 700 * time.Millisecond},
		"many pods":          {10, 20, 100 * time.Millisecond, 64, 500 * time.Millisecond},
		"one stubborn pod":   {1, 100, 20 * time.Second, 100, 2 * time.Second},
		"many stubborn pods": {10, 20, 20 * time.Second, 200, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, l := newHarness(t, fake.Config{}), &load{}
				h.runtime.before = l.stops(tc.takes, nil)
				begin := time.Now()
				for _, err := range run.Each(tc.pods, func(i int) error {
					pod, status := largePod(i, tc.containers)
					return h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: status, GraceSeconds: new(int64(30))}).Err()
				}) {
					require.NoError(t, err)
				}
				require.Equal(t, tc.most, l.most)
				require.LessOrEqual(t, l.last.Sub(begin), tc.within)
			})
		})
	}
}

// preStop handlers are bounded like stops, and a hanging one does not delay others: all are
// called within the grace period, and each container gets the rest of it.
func TestPreStopHandlersAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		hang   func(container string) bool
		grace  int64
		most   int           // handlers at a time
		within time.Duration // until the last call
	}{
		"none hangs":        {func(string) bool { return false }, 30, 16, 2 * time.Second},
		"one hangs":         {func(c string) bool { return c == "c7" }, 30, 17, 2 * time.Second},
		"all hang":          {func(string) bool { return true }, 30, 230, 4 * time.Second},
		"all hang, shortly": {func(string) bool { return true }, 4, 230, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, l := newHarness(t, fake.Config{}), &load{}
				h.cfg.Hooks = handlers(func(ctx context.Context, container, _ string) (string, error) {
					l.call(func() {
						if tc.hang(container) {
							<-ctx.Done()
						} else {
							run.Sleep(ctx, 100*time.Millisecond)
						}
					})
					return "", nil
				})
				h.restart()
				pod, status := largePod(0, 230)
				for i := range pod.Spec.Containers {
					preStop(pod, pod.Spec.Containers[i].Name, execHandler("x"))
				}
				begin := time.Now()
				require.NoError(t, h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: status, GraceSeconds: &tc.grace}).Err())
				require.Equal(t, 230, l.called)
				require.LessOrEqual(t, l.last.Sub(begin), tc.within)
				require.LessOrEqual(t, l.most, tc.most)
				require.LessOrEqual(t, time.Since(begin), time.Duration(tc.grace+1)*time.Second)
			})
		})
	}
}

// Cancelling the kill ends the wait for a slot, and the text of very many errors is bounded.
func TestManyStopsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{})
		pod, status := largePod(0, 100)
		refused := errors.New("refused" + strings.Repeat("!", 5000))
		h.runtime.before = (&load{}).stops(100*time.Millisecond, refused)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, h.m.KillPod(ctx, KillRequest{Pod: pod, Status: status}).Err(), context.DeadlineExceeded)
		require.Equal(t, 50*time.Millisecond, time.Since(begin))
		var steps []string
		result := h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: status, OnStep: func(s string) { steps = append(steps, s) }})
		require.ErrorIs(t, result.Err(), refused)
		require.Less(t, len(result.Err().Error()), 12000)
		require.Contains(t, result.Err().Error(), "and 95 more")
		for _, step := range steps {
			require.Less(t, len(step), 500)
		}
		require.Contains(t, strings.Join(steps, "\n"), "; and 11 more", "16 at a time")
	})
}

func stopAll(t *testing.T, h *harness, pod *v1.Pod) *observed.Pod {
	t.Helper()
	h.kill(pod, new(int64(1)))
	return h.status(pod)
}

// stubborn ignores SIGTERM.
func stubborn(ctx context.Context, p *fake.Process) int {
	p.Signals()
	<-ctx.Done()
	return 0
}

// C16, C32: a container is replaced with the grace period of its probe. If it cannot be stopped,
// no second instance starts.
func TestReplaceContainer(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a", "b")
	pod.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: new(int64(3))}
	first := h.mustSync(pod)
	h.runtime.take()
	request := SyncRequest{Pod: pod, Status: first, Probes: found(first.Newest("a"), probe.Liveness, probe.Failure)}
	h.runtime.before = failing("StopContainer", "", status.Error(codes.Unknown, "no"))
	require.Error(t, h.m.SyncPod(t.Context(), request).Err())
	require.Equal(t, []string{"StopContainer a 3s"}, h.runtime.take())
	h.runtime.before = nil
	require.NoError(t, h.m.SyncPod(t.Context(), request).Err())
	require.Equal(t, []string{"StopContainer a 3s", "CreateContainer a/1", "StartContainer a"}, h.runtime.take())
	require.Len(t, h.status(pod).Running(), 2)
}
