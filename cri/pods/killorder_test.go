package pods

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

// C33: sidecars end last, in reverse order, each within its own grace period.
func TestSidecarsEndLast(t *testing.T) {
	for _, tc := range []struct {
		name     string
		programs map[string]fake.Program
		handlers map[string]v1.LifecycleHandler
		before   func(ctx context.Context, call, target string) error
		grace    int64
		want     []string
	}{
		{
			name:  "at once when nothing takes time",
			grace: 30,
			want:  []string{"0s StopContainer app 30s", "0s StopContainer s2 30s", "0s StopContainer s1 30s", "0s StopPodSandbox"},
		},
		{
			name:     "a slow app eats the sidecars' time",
			programs: map[string]fake.Program{"app": slow(10 * time.Second), "s2": slow(5 * time.Second)},
			grace:    30,
			want:     []string{"0s StopContainer app 30s", "10s StopContainer s2 20s", "15s StopContainer s1 15s", "15s StopPodSandbox"},
		},
		{
			name:     "an app that does not end leaves 2 s",
			programs: map[string]fake.Program{"app": stubborn, "s2": stubborn, "s1": stubborn},
			grace:    30,
			want:     []string{"0s StopContainer app 30s", "30s StopContainer s1 2s", "30s StopContainer s2 2s", "32s StopPodSandbox"},
		},
		{
			name:     "all handlers begin at once",
			programs: map[string]fake.Program{"app": slow(5 * time.Second)},
			handlers: map[string]v1.LifecycleHandler{"app": execHandler("3"), "s2": execHandler("1"), "s1": execHandler("9")},
			grace:    30,
			want: []string{
				"0s exec app sleep 3", "0s exec s1 sleep 9", "0s exec s2 sleep 1",
				"3s StopContainer app 27s", "8s StopContainer s2 22s", "9s StopContainer s1 21s", "9s StopPodSandbox",
			},
		},
		{
			name:     "C34 a removed container delays no stop",
			programs: map[string]fake.Program{"app": stubborn},
			before:   failing("StopContainer", "app ", status.Error(codes.NotFound, "gone")),
			grace:    30,
			want:     []string{"0s StopContainer app 30s", "0s StopContainer s2 30s", "0s StopContainer s1 30s", "0s StopPodSandbox"},
		},
		{
			name:   "a stop that failed keeps them",
			before: failing("StopContainer", "app ", status.Error(codes.Unknown, "no")),
			grace:  7,
			want:   []string{"0s StopContainer app 7s", "7s StopContainer s1 2s", "7s StopContainer s2 2s", "7s StopPodSandbox"},
		},
		{
			name:   "an unavailable runtime is called again in the same order",
			before: failing("StopContainer", "app ", status.Error(codes.Unavailable, "away")),
			grace:  7,
			want:   []string{"0s StopContainer app 7s"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, l := timed(t, fake.Config{Programs: fake.ByContainer(tc.programs, fake.SleepUntilStopped)})
				write := h.runtime.before
				h.runtime.before = func(ctx context.Context, call, target string) error {
					if err := write(ctx, call, target); err != nil || tc.before == nil {
						return err
					}
					return tc.before(ctx, call, target)
				}
				pod := initPod(testPod("app"), "s1", "s2")
				for name, handler := range tc.handlers {
					preStop(pod, name, handler)
				}
				status := runPod(t, h, pod)
				synctest.Wait()
				h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: status, GraceSeconds: &tc.grace})
				requireSameTimes(t, tc.want, l.take())
			})
		})
	}
}

// requireSameTimes compares timelines. Events at the same moment have no order, unless all are
// stops at the beginning.
func requireSameTimes(t *testing.T, want, got []string) {
	t.Helper()
	ordered := true
	for _, line := range want {
		ordered = ordered && strings.HasPrefix(line, "0s Stop")
	}
	if ordered {
		require.Equal(t, want, got)
		return
	}
	require.ElementsMatch(t, want, got)
	require.True(t, strings.HasSuffix(got[len(got)-1], "StopPodSandbox"), "sandboxes come last: %v", got)
}

// runPod runs all containers of a pod, sidecars included.
func runPod(t *testing.T, h *harness, pod *v1.Pod) *observed.Pod {
	t.Helper()
	for range len(pod.Spec.InitContainers) + 1 {
		h.mustSync(pod)
	}
	h.runtime.take()
	h.takeEvents()
	return h.status(pod)
}

// timeline records the times of stops and handlers.
type timeline struct {
	mu    sync.Mutex
	begin time.Time
	lines []string
}

func (l *timeline) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%v ", time.Since(l.begin))+fmt.Sprintf(format, args...))
}

func (l *timeline) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.lines
	l.lines = nil
	return out
}

// withHooks gives the Manager a runner of lifecycle handlers.
func withHooks(t *testing.T, h *harness) {
	t.Helper()
	runner, err := hooks.New(hooks.Config{
		Exec:   h.runtime.RuntimeService,
		PodIPs: func(ctx context.Context, pod *v1.Pod) ([]string, error) { return h.seen.PodIPs(ctx, pod) },
	})
	require.NoError(t, err)
	h.cfg.Hooks = runner
	h.restart()
}

// timed returns a harness that records stops and commands.
func timed(t *testing.T, cfg fake.Config) (*harness, *timeline) {
	t.Helper()
	l := &timeline{begin: time.Now()}
	exec := cfg.Exec
	cfg.Exec = func(ctx context.Context, p *fake.Process) (fake.Program, error) {
		l.add("exec %s %s", p.Container.Name, strings.Join(p.Args, " "))
		if exec == nil {
			return sleeping(ctx, p)
		}
		return exec(ctx, p)
	}
	h := newHarness(t, cfg)
	withHooks(t, h)
	h.runtime.before = func(_ context.Context, call, target string) error {
		if strings.HasPrefix(call, "Stop") {
			l.add("%s", strings.TrimSpace(call+" "+target))
		}
		return nil
	}
	return h, l
}

// sleeping resolves the command "sleep N", which ignores signals.
func sleeping(_ context.Context, p *fake.Process) (fake.Program, error) {
	seconds, err := strconv.Atoi(p.Args[len(p.Args)-1])
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ *fake.Process) int {
		select {
		case <-ctx.Done():
			return 1
		case <-time.After(time.Duration(seconds) * time.Second):
			return 0
		}
	}, nil
}

// slow is a program that takes some time to end after SIGTERM.
func slow(d time.Duration) fake.Program {
	return func(ctx context.Context, p *fake.Process) int {
		select {
		case <-p.Signals():
		case <-ctx.Done():
			return 0
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return 0
	}
}

func preStop(pod *v1.Pod, name string, handler v1.LifecycleHandler) {
	podfacts.Container(pod, name).Lifecycle = &v1.Lifecycle{PreStop: &handler}
}

func execHandler(seconds string) v1.LifecycleHandler {
	return v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sleep", seconds}}}
}

func sleepHandler(seconds int64) v1.LifecycleHandler {
	return v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}}
}

// C33: the containers that each container waits for.
func TestWaitsFor(t *testing.T) {
	pod := initPod(testPod("app", "log"), "s1", "init", "s2", "s3")
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	type waits = map[string][]string
	for _, tc := range []struct {
		name    string
		pod     *v1.Pod
		running []string
		want    waits
	}{
		{"all", pod, []string{"app", "log", "s1", "s2", "s3", "debug"},
			waits{"s3": {"app", "log"}, "s2": {"app", "log", "s3"}, "s1": {"app", "log", "s2"}}},
		{"containers that do not run block no others", pod, []string{"log", "s1", "s2"},
			waits{"s2": {"log"}, "s1": {"log", "s2"}}},
		{"a gap among the sidecars keeps the order", pod, []string{"app", "s1", "s3"},
			waits{"s3": {"app"}, "s1": {"app", "s3"}}},
		{"sidecars only", pod, []string{"s1", "s3"}, waits{"s1": {"s3"}}},
		{"one sidecar only", pod, []string{"s1"}, waits{}},
		{"while it is initialised", pod, []string{"s1", "init"}, waits{}},
		{"ephemeral ones are not waited for", pod, []string{"s1", "debug"}, waits{}},
		{"no sidecars", testPod("app", "log"), []string{"app", "log"}, waits{}},
		{"nothing", pod, nil, waits{}},
		{"what is not in the spec", pod, []string{"gone", "s1"}, waits{}},
		{"orphan", nil, []string{"app", "s1"}, waits{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			running := map[string]bool{}
			for _, name := range tc.running {
				running[name] = true
			}
			require.Equal(t, tc.want, waitsFor(tc.pod, running))
		})
	}
}

// C34: events that end a wait, and events that do not.
func TestStopOrder(t *testing.T) {
	pod := initPod(testPod("app"), "s1")
	twice := []actions.ContainerKill{{Name: "app"}, {Name: "app"}, {Name: "s1"}}
	for _, tc := range []struct {
		name string
		done func(order *stopOrder, cancel func())
		took time.Duration
		code codes.Code
		err  error
	}{
		{"both instances", func(u *stopOrder, _ func()) { u.done("app", nil); u.done("app", nil) }, 0, codes.OK, nil},
		{"one of two instances", func(u *stopOrder, _ func()) { u.done("app", nil) }, 5 * time.Second, codes.OK, nil},
		{"a failed stop", func(u *stopOrder, _ func()) { u.done("app", errors.New("no")); u.done("app", nil) }, 5 * time.Second, codes.OK, nil},
		{"the runtime is away", func(u *stopOrder, _ func()) {
			u.done("app", status.Error(codes.Unavailable, "away"))
			u.done("app", status.Error(codes.Unavailable, "still"))
		}, 0, codes.Unavailable, nil},
		{"called off", func(_ *stopOrder, cancel func()) { cancel() }, 0, codes.Unknown, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newStopOrder(pod, twice)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begin := time.Now()
				require.NoError(t, u.wait(ctx, "app", time.Minute), "no container precedes it")
				tc.done(u, cancel)
				err := u.wait(ctx, "s1", 5*time.Second)
				require.Equal(t, tc.took, time.Since(begin))
				require.Equal(t, tc.code, status.Code(err))
				if tc.err != nil {
					require.ErrorIs(t, err, tc.err)
				}
			})
		})
	}
	require.NoError(t, newStopOrder(pod, twice).wait(t.Context(), "s1", -time.Second), "no time is no error")
}
