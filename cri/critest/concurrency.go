package critest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func concurrencyCases() []testCase {
	return []testCase{
		{"pods come and go in parallel", func(e *env) {
			const pods = 20
			configs := make([]*runtimeapi.PodSandboxConfig, pods)
			for i := range configs {
				configs[i] = e.hostPod()
				if i < 5 {
					configs[i] = e.pod()
				}
				configs[i].Labels["critest/many"] = configs[0].Metadata.Uid
			}
			sandboxes, containers := make([]string, pods), make([]string, pods)
			e.t.Cleanup(func() {
				for _, id := range sandboxes {
					e.removePod(id)
				}
			})
			for _, err := range together(pods, func(i int) (err error) {
				if sandboxes[i], err = e.Runtime.RunPodSandbox(e.ctx, configs[i], ""); err != nil {
					return fmt.Errorf("run: %w", err)
				}
				if containers[i], err = e.Runtime.CreateContainer(e.ctx, sandboxes[i], e.container("c", sleepProgram.command()...), configs[i]); err != nil {
					return fmt.Errorf("create: %w", err)
				}
				return e.Runtime.StartContainer(e.ctx, containers[i])
			}) {
				require.NoError(e.t, err)
			}
			filter := &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"critest/many": configs[0].Metadata.Uid}}
			require.ElementsMatch(e.t, sandboxes, e.sandboxIDs(filter))
			addresses := map[string]bool{}
			for i, id := range sandboxes {
				require.Equal(e.t, configs[i].Metadata.Uid, e.sandbox(id).GetMetadata().GetUid())
				require.Equal(e.t, []string{containers[i]}, e.containerIDs(&runtimeapi.ContainerFilter{PodSandboxId: id}))
				if ip := e.sandbox(id).GetNetwork().GetIp(); ip != "" {
					addresses[ip] = true
				}
			}
			require.Len(e.t, addresses, 5)
			for _, err := range together(pods, func(i int) error {
				return errors.Join(e.Runtime.StopContainer(e.ctx, containers[i], time.Minute),
					e.Runtime.StopPodSandbox(e.ctx, sandboxes[i]), e.Runtime.RemovePodSandbox(e.ctx, sandboxes[i]))
			}) {
				require.NoError(e.t, err)
			}
			require.Empty(e.t, e.sandboxIDs(filter))
		}},
		{"one of many callers gets a container's name", func(e *env) {
			pod, sandbox := e.runHost()
			config := e.container("c", sleepProgram.command()...)
			e.onlyOne(together(10, func(int) error {
				_, err := e.Runtime.CreateContainer(e.ctx, sandbox, config, pod)
				return err
			}))
			require.Len(e.t, e.containers(sandbox), 1)
		}},
		{"one of many callers gets a sandbox's name", func(e *env) {
			pod := e.hostPod()
			e.t.Cleanup(func() {
				late := *e
				var cancel context.CancelFunc
				late.ctx, cancel = context.WithTimeout(context.WithoutCancel(e.ctx), waitTimeout)
				defer cancel()
				for _, sandbox := range late.sandboxes(pod) {
					late.removePod(sandbox.GetId())
				}
			})
			e.onlyOne(together(10, func(int) error {
				_, err := e.Runtime.RunPodSandbox(e.ctx, pod, "")
				return err
			}))
			require.Len(e.t, e.sandboxes(pod), 1)
		}},
		{"one of many callers starts a container", func(e *env) {
			id := e.alone(e.create, sleepProgram)
			e.onlyOne(together(5, func(int) error { return e.Runtime.StartContainer(e.ctx, id) }))
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(id).GetState())
		}},
		{"all callers of a stop return at its end", func(e *env) {
			id := e.alone(e.startReady, sleeper)
			states := make([]runtimeapi.ContainerState, 5)
			for _, err := range together(5, func(i int) error {
				if err := e.Runtime.StopContainer(e.ctx, id, time.Minute); err != nil {
					return err
				}
				response, err := e.Runtime.ContainerStatus(e.ctx, id, false)
				states[i] = response.GetStatus().GetState()
				return err
			}) {
				require.NoError(e.t, err)
			}
			for _, state := range states {
				require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_EXITED, state)
			}
			require.Zero(e.t, e.status(id).GetExitCode(), "one signal is enough")
		}},
		// A removal may be refused during another one; the result is the same.
		{"all callers of a removal return at its end", func(e *env) {
			pod, sandbox := e.runHost()
			id := e.start(sandbox, e.container("c", sleepProgram.command()...), pod)
			worked := 0
			for _, err := range together(5, func(int) error { return ignoreNotFound(e.Runtime.RemoveContainer(e.ctx, id)) }) {
				if err == nil {
					worked++
					continue
				}
				e.refused(err)
			}
			require.NotZero(e.t, worked)
			require.Empty(e.t, e.containers(sandbox))
		}},
		{"a stop during the start leaves a state that can be stopped", func(e *env) {
			pod, sandbox := e.runHost()
			for i := range 5 {
				id := e.create(sandbox, e.container(fmt.Sprintf("c%d", i), sleepProgram.command()...), pod)
				for _, err := range together(2, func(i int) error {
					if i == 0 {
						return e.Runtime.StartContainer(e.ctx, id)
					}
					return e.Runtime.StopContainer(e.ctx, id, 0)
				}) {
					if err != nil {
						e.refused(err)
					}
				}
				require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
				require.NotEqual(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(id).GetState())
			}
		}},
		{"a stop of the sandbox during starts leaves nothing running", func(e *env) {
			pod, sandbox := e.runHost()
			ids := make([]string, 4)
			for i := range ids {
				ids[i] = e.create(sandbox, e.container(fmt.Sprintf("c%d", i), sleepProgram.command()...), pod)
			}
			for _, err := range together(len(ids)+1, func(i int) error {
				if i < len(ids) {
					return e.Runtime.StartContainer(e.ctx, ids[i])
				}
				return e.Runtime.StopPodSandbox(e.ctx, sandbox)
			}) {
				if err != nil {
					e.refused(err)
				}
			}
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, sandbox))
			e.notReady(sandbox)
			for _, id := range ids {
				require.NotEqual(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(id).GetState())
			}
		}},
		{"a removal ends a stop that waits", func(e *env) {
			id := e.alone(e.startReady, stubborn)
			errs := together(2, func(i int) error {
				if i == 0 {
					return ignoreNotFound(e.Runtime.StopContainer(e.ctx, id, waitTimeout/2))
				}
				return e.Runtime.RemoveContainer(e.ctx, id)
			})
			require.NoError(e.t, errors.Join(errs...))
			e.noContainer(id)
		}},
		{"a stop without grace ends a waiting stop", func(e *env) {
			id := e.alone(e.startReady, stubborn)
			errs := together(2, func(i int) error {
				if i == 0 {
					return e.Runtime.StopContainer(e.ctx, id, waitTimeout/2)
				}
				return e.Runtime.StopContainer(e.ctx, id, 0)
			})
			require.NoError(e.t, errors.Join(errs...))
			require.Equal(e.t, int32(137), e.status(id).GetExitCode())
		}},
		{"readers see whole states while pods come and go", func(e *env) {
			pod, sandbox := e.runHost()
			ctx, over := context.WithCancel(e.ctx)
			defer over()
			errs := together(4, func(i int) error {
				if i > 0 {
					return e.observe(ctx, sandbox)
				}
				defer over()
				return e.churn(sandbox, pod)
			})
			require.NoError(e.t, errors.Join(errs...))
		}},
	}
}

// together calls f in n goroutines that start at the same time, and returns when all have returned.
// f must not use e.t.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	begin := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-begin
			errs[i] = f(i)
		})
	}
	close(begin)
	group.Wait()
	return errs
}

// onlyOne requires one of the errors to be nil and all others to be refusals.
func (e *env) onlyOne(errs []error) {
	e.t.Helper()
	worked := 0
	for _, err := range errs {
		if err == nil {
			worked++
			continue
		}
		e.refused(err)
	}
	require.Equal(e.t, 1, worked, "of %d calls", len(errs))
}

func (e *env) churn(sandbox string, pod *runtimeapi.PodSandboxConfig) error {
	for range 5 {
		id, err := e.Runtime.CreateContainer(e.ctx, sandbox, e.container("c", sleepProgram.command()...), pod)
		if err != nil {
			return err
		}
		for _, call := range []func() error{
			func() error { return e.Runtime.StartContainer(e.ctx, id) },
			func() error { return e.Runtime.StopContainer(e.ctx, id, time.Minute) },
			func() error { return e.Runtime.RemoveContainer(e.ctx, id) },
		} {
			<-time.After(8 * time.Millisecond) // for readers where calls take no time
			if err := call(); err != nil {
				return err
			}
		}
	}
	return nil
}

// observe reads the sandbox's containers until ctx is done. It returns an error for an impossible
// state.
func (e *env) observe(ctx context.Context, sandbox string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		list, err := e.Runtime.ListContainers(e.ctx, &runtimeapi.ContainerFilter{PodSandboxId: sandbox})
		if err != nil {
			return err
		}
		for _, entry := range list {
			response, err := e.Runtime.ContainerStatus(e.ctx, entry.GetId(), false)
			if err != nil && ignoreNotFound(err) == nil {
				continue
			}
			if err := errors.Join(err, fault(response.GetStatus())); err != nil {
				return err
			}
		}
	}
}

// fault returns an error if a status is inconsistent.
func fault(s *runtimeapi.ContainerStatus) error {
	started, ended := s.GetStartedAt() != 0, s.GetFinishedAt() != 0
	switch s.GetState() {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		if started || ended {
			return fmt.Errorf("created, but with times: %v", s)
		}
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		if !started || ended {
			return fmt.Errorf("running, but not started or already ended: %v", s)
		}
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		if !ended || s.GetReason() == "" {
			return fmt.Errorf("exited, but without a time or reason: %v", s)
		}
	default:
		return fmt.Errorf("unknown state: %v", s)
	}
	return nil
}
