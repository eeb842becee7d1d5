package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/pleg"
)

const (
	// minGraceSeconds is what every container gets at least, so that a signal
	// can be handled at all.
	minGraceSeconds = 2
	// orphanGraceSeconds is what a pod without a spec gets.
	orphanGraceSeconds = 1
)

// KillRequest asks for the end of a pod.
type KillRequest struct {
	// Pod is the pod's spec, nil for one that only the runtime knows.
	Pod *v1.Pod
	// Status is what the runtime has of the pod. Without Pod it names it, too.
	Status *pleg.PodStatus
	// GraceSeconds replaces the grace period of the whole pod; nil means the
	// pod's own, and 1 without Pod. Containers get 2 s at least.
	GraceSeconds *int64
	// Message goes into the events; zero means "Stopping container NAME".
	Message string
}

// KillPod stops the containers of a pod that run, all at the same time, and then
// its sandboxes. When ctx ends it returns at once and leaves the rest as it is; a
// repeated call with a shorter grace period shortens what is still going on.
// What is not there any more counts as stopped.
func (m *Manager) KillPod(ctx context.Context, r KillRequest) Result {
	if r.Status == nil {
		return Result{stopped: errors.New("pods: KillRequest.Status is required")}
	}
	p := identityOfStatus(r.Status)
	if r.Pod != nil {
		p = identityOf(r.Pod)
	}
	result := Result{Pod: p.String()}
	m.killPod(ctx, podKill{identity: p, pod: r.Pod, status: r.Status, override: r.GraceSeconds, message: r.Message}, &result)
	return result
}

// podKill is the kill of all of a pod.
type podKill struct {
	identity podIdentity
	pod      *v1.Pod
	status   *pleg.PodStatus
	override *int64
	message  string
	// own are the reasons of single containers.
	own []ContainerKill
}

// killPod tells whether everything has stopped.
func (m *Manager) killPod(ctx context.Context, k podKill, result *Result) bool {
	errs := m.killContainers(ctx, k, k.containers(), result)
	if err := errors.Join(errs...); err != nil && !m.mayStopSandboxes(ctx, k, errs) {
		return false
	}
	errs = parallel(len(k.status.Sandboxes), func(i int) error {
		return m.stopSandbox(ctx, k.status.Sandboxes[i].ID)
	})
	for _, err := range errs {
		result.add(ActionKillPodSandbox, k.identity.Name, err)
	}
	return result.Err() == nil
}

// containers are the containers to stop: what runs, and what may run.
func (k podKill) containers() []ContainerKill {
	var out []ContainerKill
	for _, c := range k.status.Containers {
		if c.State != pleg.StateRunning && c.State != pleg.StateUnknown {
			continue
		}
		kill := ContainerKill{ID: c.ID, Name: c.Name, Message: k.message}
		if i := slices.IndexFunc(k.own, func(own ContainerKill) bool { return own.ID == c.ID }); i >= 0 {
			kill = k.own[i]
		}
		kill.Message = cmp.Or(kill.Message, "Stopping container "+c.Name)
		out = append(out, kill)
	}
	return out
}

// killContainers stops containers at the same time and returns the error of each.
func (m *Manager) killContainers(ctx context.Context, k podKill, kills []ContainerKill, result *Result) []error {
	errs := parallel(len(kills), func(i int) error { return m.killContainer(ctx, k, kills[i]) })
	for i, err := range errs {
		result.add(ActionKillContainer, kills[i].Name, err)
	}
	return errs
}

// mayStopSandboxes decides whether sandboxes are stopped although a container
// was not. That ends the container with force, so it must have had its time: not
// when the wait was called off, nor while the runtime cannot be reached.
func (m *Manager) mayStopSandboxes(ctx context.Context, k podKill, errs []error) bool {
	if ctx.Err() != nil {
		return false
	}
	for _, err := range errs {
		if status.Code(err) == codes.Unavailable {
			return false
		}
	}
	m.log.Warn("stopping sandboxes although a container did not stop", "pod", k.identity, "err", errors.Join(errs...))
	return true
}

func (m *Manager) killContainer(ctx context.Context, k podKill, c ContainerKill) error {
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	grace := graceSeconds(k.pod, c, k.override)
	m.cfg.Event(k.identity.containerRef(c.Name), v1.EventTypeNormal, "Killing", c.Message)
	err := m.cfg.Runtime.StopContainer(ctx, c.ID.ID, time.Duration(max(grace, minGraceSeconds))*time.Second)
	if err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("stop container %s: %w", c.ID.ID, err)
	}
	return nil
}

func (m *Manager) stopSandbox(ctx context.Context, id string) error {
	err := m.cfg.Runtime.StopPodSandbox(ctx, id)
	if err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	m.noteStopped(id, err == nil)
	return nil
}

// noteStopped remembers whether a sandbox is there and stopped.
func (m *Manager) noteStopped(id string, stopped bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if stopped {
		m.stopped[id] = true
	} else {
		delete(m.stopped, id)
	}
}

func (m *Manager) isStopped(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopped[id]
}

// graceSeconds is how long a container may take to end by itself. pod is nil for
// one that only the runtime knows.
func graceSeconds(pod *v1.Pod, kill ContainerKill, override *int64) int64 {
	switch {
	case override != nil:
		return max(*override, 0)
	case pod == nil:
		return orphanGraceSeconds
	case pod.DeletionGracePeriodSeconds != nil:
		return *pod.DeletionGracePeriodSeconds
	}
	if s := probeGrace(pod, kill); s != nil {
		return *s
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return *s
	}
	return minGraceSeconds
}

// probeGrace is the grace period of the probe that asked for the kill.
func probeGrace(pod *v1.Pod, kill ContainerKill) *int64 {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name != kill.Name {
			continue
		}
		switch {
		case kill.Reason == KillLivenessProbe && c.LivenessProbe != nil:
			return c.LivenessProbe.TerminationGracePeriodSeconds
		case kill.Reason == KillStartupProbe && c.StartupProbe != nil:
			return c.StartupProbe.TerminationGracePeriodSeconds
		}
	}
	return nil
}
