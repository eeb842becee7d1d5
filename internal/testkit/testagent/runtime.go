package testagent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

// Runtime is an in-memory runtime whose changing calls a test can intercept. It outlasts the
// agents.
type Runtime struct {
	*fake.Runtime

	mu          sync.Mutex
	interceptor Around
}

// Around replaces a call. do makes the call.
type Around func(ctx context.Context, call string, do func() error) error

// NewRuntime returns a Runtime without an interceptor.
func NewRuntime(r *fake.Runtime) *Runtime { return &Runtime{Runtime: r} }

// Intercept sets the interceptor of further calls; nil removes it.
func (l *Runtime) Intercept(interceptor Around) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interceptor = interceptor
}

func (l *Runtime) call(ctx context.Context, call string, do func() error) error {
	l.mu.Lock()
	interceptor := l.interceptor
	l.mu.Unlock()
	if interceptor == nil {
		return do()
	}
	return interceptor(ctx, call, do)
}

var _ cri.RuntimeService = (*Runtime)(nil)

// detached returns a context with which a late call, after its caller has given up, still takes
// effect.
func detached(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// id is call for a call that returns an ID. The ID of a late call is discarded.
func (l *Runtime) id(ctx context.Context, call string, do func(context.Context) (string, error)) (string, error) {
	var answer atomic.Pointer[string]
	err := l.call(ctx, call, func() error {
		id, err := do(detached(ctx))
		answer.Store(&id)
		return err
	})
	if err != nil {
		return "", err
	}
	return *answer.Load(), nil
}

// RunPodSandbox implements cri.RuntimeService.
func (l *Runtime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	return l.id(ctx, "RunPodSandbox", func(ctx context.Context) (string, error) { return l.Runtime.RunPodSandbox(ctx, config, handler) })
}

// StopPodSandbox implements cri.RuntimeService.
func (l *Runtime) StopPodSandbox(ctx context.Context, id string) error {
	return l.call(ctx, "StopPodSandbox", func() error { return l.Runtime.StopPodSandbox(ctx, id) })
}

// RemovePodSandbox implements cri.RuntimeService.
func (l *Runtime) RemovePodSandbox(ctx context.Context, id string) error {
	return l.call(ctx, "RemovePodSandbox", func() error { return l.Runtime.RemovePodSandbox(ctx, id) })
}

// CreateContainer implements cri.RuntimeService.
func (l *Runtime) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	return l.id(ctx, "CreateContainer", func(ctx context.Context) (string, error) {
		return l.Runtime.CreateContainer(ctx, sandbox, config, sandboxConfig)
	})
}

// StartContainer implements cri.RuntimeService.
func (l *Runtime) StartContainer(ctx context.Context, id string) error {
	return l.call(ctx, "StartContainer", func() error { return l.Runtime.StartContainer(detached(ctx), id) })
}

// StopContainer implements cri.RuntimeService.
func (l *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return l.call(ctx, "StopContainer", func() error { return l.Runtime.StopContainer(ctx, id, grace) })
}

// RemoveContainer implements cri.RuntimeService.
func (l *Runtime) RemoveContainer(ctx context.Context, id string) error {
	return l.call(ctx, "RemoveContainer", func() error { return l.Runtime.RemoveContainer(ctx, id) })
}

// DieAt makes the agent die at the n-th changing call, before or after its effect: none of its
// later calls take effect or return a result. It returns a channel that is closed at that
// moment.
func (l *Runtime) DieAt(n int, before bool) <-chan struct{} {
	died := make(chan struct{})
	var mu sync.Mutex
	calls := 0
	l.Intercept(func(ctx context.Context, _ string, do func() error) error {
		mu.Lock()
		calls++
		mine, dead := calls == n, calls > n
		mu.Unlock()
		if !dead && !(mine && before) {
			if err := do(); !mine {
				return err
			}
		}
		if mine {
			close(died)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	return died
}
