package critest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func stopCases() []testCase {
	return []testCase{
		{"a container that ends within its grace keeps its exit code", func(e *env) {
			p := e.newPod()
			id := e.ready(p, "main", quits)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			e.requireEnd(id, 7)
		}},
		{"a container without a handler ends by SIGTERM", func(e *env) {
			p := e.newPod()
			id := e.ready(p, "main", unprepared)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			e.requireEnd(id, 143)
		}},
		{"a container that ignores SIGTERM is killed after its grace and not before", func(e *env) {
			const grace = 2 * time.Second
			p := e.newPod()
			id := e.ready(p, "main", counts)
			begin := time.Now()
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, grace))
			require.GreaterOrEqual(e.t, time.Since(begin), grace)
			status := e.requireEnd(id, killedCode)
			require.GreaterOrEqual(e.t, time.Duration(status.GetFinishedAt()-status.GetStartedAt()), grace)
			require.Equal(e.t, []string{"ready", "got"}, e.text(p, "main"), "the signal comes first")
		}},
		{"a stop without grace kills at once, with no signal before", func(e *env) {
			p := e.newPod()
			id := e.ready(p, "main", counts)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			e.requireEnd(id, killedCode)
			require.Equal(e.t, []string{"ready"}, e.text(p, "main"))
		}},
		{"a second stop with a shorter grace shortens the first", func(e *env) {
			took, _ := stopTwice(e, time.Second)
			require.GreaterOrEqual(e.t, took, time.Second)
		}},
		{"a second stop without grace kills at once", func(e *env) { stopTwice(e, 0) }},
		{"a second stop does not repeat the signal", func(e *env) {
			_, printed := stopTwice(e, time.Second)
			require.Equal(e.t, []string{"ready", "got"}, printed)
		}},
		// A later stop has its own grace period.
		{"a stop whose caller leaves sends the signal and does not kill", func(e *env) {
			p := e.newPod()
			id := e.ready(p, "main", counts)
			ctx, cancel := context.WithTimeout(e.ctx, 500*time.Millisecond)
			defer cancel()
			err := e.Runtime.StopContainer(ctx, id, time.Second)
			require.Error(e.t, err)
			require.True(e.t, errors.Is(err, context.DeadlineExceeded), "%v", err)
			e.sleep(1500 * time.Millisecond)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(id).GetState())
			begin := time.Now()
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Second))
			require.GreaterOrEqual(e.t, time.Since(begin), time.Second)
			e.requireEnd(id, killedCode)
			require.Equal(e.t, "got", e.text(p, "main")[1])
		}},
		{"the stop signal in the status is the signal sent", func(e *env) {
			p := e.newPod()
			config := e.container("main", picky.command()...)
			config.StopSignal = runtimeapi.Signal_SIGNAL_SIGUSR1
			id := e.start(p.id, config, p.config)
			e.printed(p, "main", "ready")
			honoured := e.status(id).GetStopSignal() == runtimeapi.Signal_SIGNAL_SIGUSR1
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			if !honoured {
				e.requireEnd(id, 4)
				e.lacks("ContainerConfig.stop_signal")
			}
			e.requireEnd(id, 3)
		}},
		{"stopping a sandbox kills its containers without grace", func(e *env) {
			p := e.newPod()
			ids := []string{e.ready(p, "a", counts), e.ready(p, "b", quits)}
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, p.id))
			for _, id := range ids {
				e.requireEnd(id, killedCode)
			}
			require.Equal(e.t, []string{"ready"}, e.text(p, "a"))
		}},
		{"a stopped container ends after it started and starts after it was made", func(e *env) {
			p := e.newPod()
			id := e.create(p.id, e.container("main", quits.command()...), p.config)
			created := e.status(id)
			require.Positive(e.t, created.GetCreatedAt())
			require.Zero(e.t, created.GetStartedAt())
			require.Zero(e.t, created.GetFinishedAt())
			require.NoError(e.t, e.Runtime.StartContainer(e.ctx, id))
			e.printed(p, "main", "ready")
			started := e.status(id)
			require.GreaterOrEqual(e.t, started.GetStartedAt(), started.GetCreatedAt())
			require.Zero(e.t, started.GetFinishedAt())
			e.sleep(50 * time.Millisecond)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			stopped := e.requireEnd(id, 7)
			require.Equal(e.t, created.GetCreatedAt(), stopped.GetCreatedAt())
			require.Equal(e.t, started.GetStartedAt(), stopped.GetStartedAt())
			require.Greater(e.t, stopped.GetFinishedAt(), stopped.GetStartedAt())
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			require.Equal(e.t, stopped.GetFinishedAt(), e.requireEnd(id, 7).GetFinishedAt(), "a second stop changes nothing")
		}},
	}
}

// killedCode is the exit code after SIGKILL.
const killedCode = 137

type livePod struct {
	config *runtimeapi.PodSandboxConfig
	id     string
}

func (e *env) newPod() livePod {
	e.t.Helper()
	config := e.pod()
	return livePod{config, e.run(config)}
}

// ready starts a program and waits until it has printed "ready".
func (e *env) ready(p livePod, name string, what program) string {
	e.t.Helper()
	id := e.start(p.id, e.container(name, what.command()...), p.config)
	e.printed(p, name, "ready")
	return id
}

// requireEnd requires that a container ended with an exit code.
func (e *env) requireEnd(id string, code int32) *runtimeapi.ContainerStatus {
	e.t.Helper()
	status := e.status(id)
	require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_EXITED, status.GetState())
	require.Equal(e.t, code, status.GetExitCode())
	return status
}

// async makes a call in the background. The channel delivers one result.
func (e *env) async(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

func (e *env) sleep(d time.Duration) {
	e.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
		require.NoError(e.t, e.ctx.Err())
	}
}

// longGrace exceeds the time of a case: a stop that waits for its end fails.
const longGrace = 2 * waitTimeout

// stopTwice stops a container that ignores the signal, and stops it again after the signal has
// arrived. It returns the duration of the second stop and the output of the container.
func stopTwice(e *env, second time.Duration) (took time.Duration, printed []string) {
	p := e.newPod()
	id := e.ready(p, "main", counts)
	first := e.async(func() error { return e.Runtime.StopContainer(e.ctx, id, longGrace) })
	e.printed(p, "main", "got")
	begin := time.Now()
	require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, second))
	took = time.Since(begin)
	require.NoError(e.t, <-first)
	e.requireEnd(id, killedCode)
	return took, e.text(p, "main")
}
