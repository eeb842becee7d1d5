package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
)

// pollExit is the period of reading the state of a killed container.
const pollExit = time.Millisecond

// bareKills kills the container of one pod repeatedly, with CRI calls only.
type bareKills struct {
	b         *bare
	sandbox   string
	config    *runtimeapi.PodSandboxConfig
	container string
	attempt   uint32
	// exits are the times from a kill until the runtime reported the exit. starts are the times to
	// create and start the next container.
	exits, starts []time.Duration
}

// newKills runs the pod whose container is killed.
func (b *bare) newKills(ctx context.Context) (*bareKills, error) {
	k := &bareKills{b: b}
	var err error
	if k.sandbox, err = b.start(ctx); err != nil {
		return nil, err
	}
	status, err := b.client.PodSandboxStatus(ctx, k.sandbox, false)
	if err != nil {
		return nil, err
	}
	k.config = &runtimeapi.PodSandboxConfig{Metadata: status.Status.Metadata, LogDirectory: filepath.Join(b.logs, k.sandbox)}
	list, err := b.client.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: k.sandbox})
	if err != nil || len(list) != 1 {
		return nil, fmt.Errorf("%d containers of a bare pod: %w", len(list), err)
	}
	k.container = list[0].Id
	return k, os.MkdirAll(k.config.LogDirectory, 0o755)
}

// next kills the container, starts a successor, and removes the dead container.
func (k *bareKills) next(ctx context.Context) error {
	began, err := k.b.kill(ctx, k.container)
	if err != nil {
		return err
	}
	if err := k.awaitExit(ctx); err != nil {
		return err
	}
	k.exits = append(k.exits, time.Since(began))
	dead := k.container
	began = time.Now()
	if err := k.start(ctx); err != nil {
		return err
	}
	k.starts = append(k.starts, time.Since(began))
	return k.b.client.RemoveContainer(ctx, dead)
}

// kill kills a container's process and returns the time of the kill.
func (b *bare) kill(ctx context.Context, container string) (at time.Time, err error) {
	pid, err := b.pidOf(ctx, container)
	if err != nil {
		return at, err
	}
	at = time.Now()
	return at, syscall.Kill(pid, syscall.SIGKILL)
}

func (k *bareKills) awaitExit(ctx context.Context) error {
	tick := time.NewTicker(pollExit)
	defer tick.Stop()
	for {
		status, err := k.b.client.ContainerStatus(ctx, k.container, false)
		if err != nil || status.Status.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (k *bareKills) start(ctx context.Context) (err error) {
	k.attempt++
	k.container, err = k.b.run(ctx, k.sandbox, k.config, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main", Attempt: k.attempt}, Command: command, LogPath: fmt.Sprintf("main-%d.log", k.attempt),
	})
	return err
}

func (k *bareKills) end(ctx context.Context) error { return k.b.stop(ctx, k.sandbox) }

func (b *bare) running(ctx context.Context, uid string) (*runtimeapi.Container, error) {
	list, err := b.client.ListContainers(ctx, &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{labels.PodUID: uid},
	})
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%s: %d running containers", uid, len(list))
	}
	return list[0], nil
}

// killPod kills the process of a pod's running container and returns the time of the kill.
func (b *bare) killPod(ctx context.Context, uid string) (at time.Time, err error) {
	c, err := b.running(ctx, uid)
	if err != nil {
		return at, err
	}
	return b.kill(ctx, c.Id)
}

func (b *bare) pidOf(ctx context.Context, container string) (int, error) {
	status, err := b.client.ContainerStatus(ctx, container, true)
	if err != nil {
		return 0, err
	}
	_, text, ok := strings.Cut(status.Info["info"], `"pid":`)
	if !ok {
		return 0, fmt.Errorf("%s: the runtime reports no pid", container)
	}
	var pid int
	_, err = fmt.Sscanf(strings.TrimLeft(text, " "), "%d", &pid)
	return pid, err
}
