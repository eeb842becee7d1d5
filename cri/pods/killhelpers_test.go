package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/pleg"
)

// runPod runs all containers of a pod, of every kind, by the runtime's calls alone.
func runPod(t *testing.T, h *harness, pod *v1.Pod) *pleg.PodStatus {
	t.Helper()
	named := map[string]string{labels.PodName: pod.Name, labels.PodNamespace: pod.Namespace, labels.PodUID: string(pod.UID)}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID)},
		Labels:   named,
	}
	id, err := h.runtime.RunPodSandbox(t.Context(), sandbox, "")
	require.NoError(t, err)
	all := append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
	for i := range all {
		c := &all[i]
		config := &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: c.Name}, Image: &runtimeapi.ImageSpec{Image: c.Image},
			Command: c.Command, Labels: map[string]string{labels.ContainerName: c.Name}, Annotations: killAnnotations(t, pod, c),
		}
		for k, v := range named {
			config.Labels[k] = v
		}
		container, err := h.runtime.CreateContainer(t.Context(), id, config, sandbox)
		require.NoError(t, err)
		require.NoError(t, h.runtime.StartContainer(t.Context(), container))
	}
	h.runtime.take()
	h.takeEvents()
	return h.status(pod)
}

// killAnnotations are what a container keeps of its spec for its end.
func killAnnotations(t *testing.T, pod *v1.Pod, c *v1.Container) map[string]string {
	out := map[string]string{}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		out[labels.AnnotationPodTerminationGrace] = strconv.FormatInt(*s, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		b, err := json.Marshal(c.Lifecycle.PreStop)
		require.NoError(t, err)
		out[labels.AnnotationPreStopHandler] = string(b)
	}
	return out
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
	containerSpec(pod, name).Lifecycle = &v1.Lifecycle{PreStop: &handler}
}

func execHandler(seconds string) v1.LifecycleHandler {
	return v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sleep", seconds}}}
}

func sleepHandler(seconds int64) v1.LifecycleHandler {
	return v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}}
}
