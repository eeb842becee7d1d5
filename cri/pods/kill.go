package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

// KillRequest is the input of KillPod.
type KillRequest struct {
	// Pod is the pod's spec, or nil for an orphan. An orphan is stopped without preStop and with
	// the shortest grace period, 2 s, unless Restore is set.
	Pod *v1.Pod
	// Restore, without Pod, stops each container with the preStop handler and grace period in its
	// annotations. It is for desired pods whose spec is not available.
	Restore bool
	// Status is the pod's state in the runtime. Without Pod it also identifies the pod. Required.
	// With a nil Status or another UID than Pod's no container is stopped, and Result.Err is set.
	Status *observed.Pod
	// GraceSeconds replaces the grace period of the whole pod, preStop included, for eviction,
	// shutdown or deletion. It starts with this call. Nil selects the pod's own. With 0 or less
	// preStop is skipped. Each container has at least 2 s.
	GraceSeconds *int64
	// Message is the text of the events. Default: "Stopping container NAME".
	Message string
	// OnStep is called with the current step of each container's stop, for the pod's explanation.
	// It must not block. Optional.
	OnStep func(step string)
}

// KillPod stops the running containers of a pod, and then its sandboxes.
//
// All containers stop at the same time, except sidecars (KEP-753): a sidecar waits until the
// regular containers and the sidecars after it have stopped. The grace period of a container
// covers its preStop handler and this wait. The rest, at least 2 s, is the time between SIGTERM
// and SIGKILL. A failed handler is an event and a failed stop is part of the result; neither
// prevents further stops. A handler ends within about a second of its container, which is no
// failure; the kubelet waits for the end of a sleep or request. A handler that exceeds the grace
// period continues until its container has stopped.
//
// When ctx is done, KillPod cancels its calls, returns, and leaves the remaining containers
// unchanged. To shorten a kill, cancel it and call KillPod again with a shorter grace period: that
// shortens a preStop handler, the wait of a sidecar, or a stop. This Manager does not repeat a
// finished preStop handler. It repeats an interrupted one, because handlers run at least once.
// Containers that no longer exist count as stopped.
func (m *Manager) KillPod(ctx context.Context, r KillRequest) Result {
	if r.Status == nil {
		return Result{stopped: errors.New("pods: KillRequest.Status is required")}
	}
	p := identityOfStatus(r.Status)
	if r.Pod != nil {
		p = identityOf(r.Pod)
		if err := checkIdentity(r.Pod, r.Status); err != nil {
			return Result{stopped: fmt.Errorf("pods: KillRequest: %w", err)}
		}
	}
	if p.UID == "" {
		return Result{stopped: errors.New("pods: KillRequest: Status.UID is required")}
	}
	result := Result{Pod: p.String()}
	m.killPod(ctx, podKill{
		identity: p, pod: r.Pod, restore: r.Restore, status: r.Status,
		override: r.GraceSeconds, message: r.Message, steps: &killSteps{set: r.OnStep},
	}, &result)
	return result
}

// podKill is the kill of a pod, or of some of its containers.
type podKill struct {
	identity podIdentity
	pod      *v1.Pod
	// restore reads a missing spec from the annotations in the runtime.
	restore  bool
	status   *observed.Pod
	override *int64
	message  string
	// own has the kills with a reason of their own.
	own []actions.ContainerKill
	// stopOrder orders sidecars. It is nil for kills of single containers.
	stopOrder *stopOrder
	steps     *killSteps
	// stops bounds the stops of this kill.
	stops *gate
}

// killPod reports whether all containers and sandboxes have stopped.
func (m *Manager) killPod(ctx context.Context, k podKill, result *Result) bool {
	kills := k.containers()
	k.stopOrder = newStopOrder(k.pod, kills)
	errs := m.killContainers(ctx, k, kills, result)
	if err := errors.Join(errs...); err != nil && !m.mayStopSandboxes(ctx, k, errs) {
		return false
	}
	sandboxes := m.unstopped(k.status.Sandboxes)
	k.steps.sandboxes(len(sandboxes))
	errs = run.Each(len(sandboxes), func(i int) error { return m.stopSandbox(ctx, sandboxes[i].ID) })
	for _, err := range errs {
		result.add(ActionKillPodSandbox, k.identity.Name, err)
	}
	return result.Err() == nil
}

// containers returns the containers to stop: those running or in unknown state.
func (k podKill) containers() []actions.ContainerKill {
	var out []actions.ContainerKill
	for _, c := range k.status.Containers {
		if c.State != observed.StateRunning && c.State != observed.StateUnknown {
			continue
		}
		kill := actions.ContainerKill{ID: c.ID, Name: c.Name, Message: k.message}
		if i := slices.IndexFunc(k.own, func(own actions.ContainerKill) bool { return own.ID == c.ID }); i >= 0 {
			kill = k.own[i]
		}
		kill.Message = cmp.Or(kill.Message, "Stopping container "+c.Name)
		out = append(out, kill)
	}
	return out
}

// killContainers stops containers concurrently and returns one error per container.
func (m *Manager) killContainers(ctx context.Context, k podKill, kills []actions.ContainerKill, result *Result) []error {
	k.stops = newGate(maxPodStops, stopPlaceLimit)
	errs := run.Each(len(kills), func(i int) error { return m.killContainer(ctx, k, kills[i]) })
	for i, err := range errs {
		result.add(ActionKillContainer, kills[i].Name, err)
	}
	return errs
}

// mayStopSandboxes reports whether sandboxes are stopped although a container failed to stop.
// Stopping a sandbox kills its containers, so it returns false if their grace period was cut
// short: the kill was cancelled, or the runtime is unavailable.
func (m *Manager) mayStopSandboxes(ctx context.Context, k podKill, errs []error) bool {
	if ctx.Err() != nil {
		return false
	}
	for _, err := range errs {
		if status.Code(err) == codes.Unavailable {
			return false
		}
	}
	m.log.Warn("stopping sandboxes after a failed container stop", "pod", k.identity, "err", run.Join(errs...))
	return true
}

func (m *Manager) stopSandbox(ctx context.Context, id string) error {
	leave, err := m.stops.enter(ctx, true)
	if err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, run.EndOf(ctx))
	}
	defer leave()
	err = m.cfg.Runtime.StopPodSandbox(ctx, id)
	if err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	m.noteStopped(id, err == nil)
	return nil
}

// unstopped returns the sandboxes to stop. It omits sandboxes that this Manager has stopped and that
// are not ready. A sandbox that ended by itself still has a network to release.
func (m *Manager) unstopped(all []observed.Sandbox) []observed.Sandbox {
	return slices.DeleteFunc(slices.Clone(all), func(sb observed.Sandbox) bool {
		return sb.State == observed.SandboxNotReady && m.isStopped(sb.ID)
	})
}

// noteStopped records whether a sandbox exists and is stopped.
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

// maxSteps bounds the containers listed in a step.
const maxSteps = 5

// killSteps combines the steps of a pod's containers into one text.
type killSteps struct {
	set func(step string)

	mu sync.Mutex
	at map[string]string
}

// container sets the step of a container's stop. The step "" removes it.
func (s *killSteps) container(name, step string) {
	if s == nil || s.set == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[string]string{}
	}
	s.at[name] = step
	if step == "" {
		delete(s.at, name)
	}
	var parts []string
	names := slices.Sorted(maps.Keys(s.at))
	for _, name := range names[:min(len(names), maxSteps)] {
		parts = append(parts, "container "+name+": "+s.at[name])
	}
	if more := len(names) - maxSteps; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if len(parts) > 0 {
		s.set(strings.Join(parts, "; "))
	}
}

// sandboxes sets the step for stopping n sandboxes.
func (s *killSteps) sandboxes(n int) {
	if s == nil || s.set == nil || n == 0 {
		return
	}
	s.set(fmt.Sprintf("stopping %d sandboxes", n))
}
