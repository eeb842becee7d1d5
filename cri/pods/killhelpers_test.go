package pods

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

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

// timeline writes down when which container was stopped and which handler ran.
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

// withHooks gives the Manager a runner of lifecycle handlers, as an agent does.
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

// timed makes a harness whose stops and commands are written down.
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

// sleeping resolves the command "sleep N", which is of no use in signals.
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

// slow takes some time to end after SIGTERM.
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
