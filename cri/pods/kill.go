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
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

// KillRequest asks for the end of a pod.
type KillRequest struct {
	// Pod is the pod's spec, nil for one that only the runtime knows: an orphan.
	// Nobody is there to say how it wants to be stopped, so it gets 1 s, without
	// preStop, unless Restore is set.
	Pod *v1.Pod
	// Restore, without Pod, stops each container as the annotations say that it
	// was created with: with its preStop handler, and the pod's grace period. It
	// is for pods that are wanted, but whose spec is not at hand.
	Restore bool
	// Status is what the runtime has of the pod. Without Pod it names it, too. One of
	// another pod, as their UIDs tell, is refused, and nothing is stopped.
	Status *observed.Pod
	// GraceSeconds replaces the grace period of the whole pod, before preStop:
	// eviction, shutdown, deletion. It counts from this call on. nil means the
	// pod's own; 0 and less means no preStop. Containers get 2 s at least.
	GraceSeconds *int64
	// Message goes into the events; zero means "Stopping container NAME".
	Message string
	// OnStep is told what the kill is at, container by container, for people
	// who ask why a pod is still there; may be nil. It must not block.
	OnStep func(step string)
}

// KillPod stops the containers of a pod that run, and then its sandboxes.
//
// All containers are stopped at the same time, with one exception: a sidecar
// (KEP-753) waits for its turn, which comes when the regular containers and the
// sidecars after it have stopped. Each gets the grace period: within it run its
// preStop handler, its wait for a turn, and what is left is the time between
// SIGTERM and SIGKILL, 2 s at least. What fails on the way (a handler, a stop) is
// part of events or of the result, and does not keep the rest from being stopped.
//
// When ctx ends it returns at once and leaves what still runs as it is. A repeated
// call with a shorter grace period so shortens what is going on, be it a preStop
// handler, a wait for a turn or a stop. A preStop handler that has come to its end
// is not run again by this Manager; one that was interrupted is, as its promise is
// to run at least once. What is not there any more counts as stopped.
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

// podKill is the kill of all of a pod, or of some of its containers.
type podKill struct {
	identity podIdentity
	pod      *v1.Pod
	// restore asks the runtime for what pod does not tell, if that is nil.
	restore  bool
	status   *observed.Pod
	override *int64
	message  string
	// own are the reasons of single containers.
	own []ContainerKill
	// turns makes sidecars wait; nil for kills of single containers.
	turns *turns
	steps *killSteps
	// stops bounds the stops of this kill; nil for the stop of a single container.
	stops *gate
}

// killPod tells whether everything has stopped.
func (m *Manager) killPod(ctx context.Context, k podKill, result *Result) bool {
	kills := k.containers()
	k.turns = newTurns(k.pod, kills)
	errs := m.killContainers(ctx, k, kills, result)
	if err := errors.Join(errs...); err != nil && !m.mayStopSandboxes(ctx, k, errs) {
		return false
	}
	k.steps.sandboxes(len(k.status.Sandboxes))
	errs = run.Each(len(k.status.Sandboxes), func(i int) error {
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
		if c.State != observed.StateRunning && c.State != observed.StateUnknown {
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
	k.stops = newGate(maxPodStops, stopPlaceLimit)
	errs := run.Each(len(kills), func(i int) error { return m.killContainer(ctx, k, kills[i]) })
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
	m.log.Warn("stopping sandboxes although a container did not stop", "pod", k.identity, "err", run.Join(errs...))
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

// maxSteps is of how many containers a step tells.
const maxSteps = 5

// killSteps puts together what a kill is at, for people.
type killSteps struct {
	set func(step string)

	mu sync.Mutex
	at map[string]string
}

// container sets the step of the stop of a container. The step "" ends it.
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

// sandboxes tells that sandboxes are stopped.
func (s *killSteps) sandboxes(n int) {
	if s == nil || s.set == nil || n == 0 {
		return
	}
	s.set(fmt.Sprintf("stopping %d sandbox(es)", n))
}
