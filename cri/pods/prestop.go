package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

// preStops has the running preStop handlers, so that a container never runs two at a time, and
// the containers (by ID) whose handler has finished, so that a second attempt to stop them does
// not repeat it. The zero value is ready to use.
type preStops struct {
	mu   sync.Mutex
	over map[string]bool
	runs map[string]*preStopRun
}

// preStopRun is a running handler.
type preStopRun struct {
	ctx   context.Context
	name  string        // pod and container, for messages
	ended chan struct{} // closed once err is set
	err   error
}

// run starts a handler in the background.
func (p *preStops) run(ctx context.Context, id, name string, f func() error) *preStopRun {
	r := &preStopRun{ctx: ctx, name: name, ended: make(chan struct{})}
	p.mu.Lock()
	if p.runs == nil {
		p.runs = map[string]*preStopRun{}
	}
	p.runs[id] = r
	p.mu.Unlock()
	go func() {
		r.err = run.Guard("preStop handler", f)
		p.mu.Lock()
		delete(p.runs, id)
		p.mu.Unlock()
		close(r.ended)
	}()
	return r
}

// await waits for a handler that an earlier attempt to stop the container started. It reports
// whether none is running.
func (p *preStops) await(ctx context.Context, id string) bool {
	p.mu.Lock()
	r := p.runs[id]
	p.mu.Unlock()
	return r == nil || r.await(ctx)
}

// await reports whether the handler returned before ctx was done.
func (r *preStopRun) await(ctx context.Context) bool {
	select {
	case <-r.ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// overdue returns the names of handlers that still run after their context is done.
func (p *preStops) overdue() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, r := range p.runs {
		if r.ctx.Err() != nil {
			out = append(out, r.name)
		}
	}
	slices.Sort(out)
	return out
}

// Overdue returns the names of containers whose preStop handler still runs after its context is
// done, which Config.Hooks must not allow. A kill waits at most 5 s for such a handler, so it may
// outlive KillPod, at most one per container. An agent should log them when it stops. Overdue is
// safe for concurrent use.
func (m *Manager) Overdue() []string { return m.preStops.overdue() }

func (p *preStops) note(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over == nil {
		p.over = map[string]bool{}
	}
	p.over[id] = true
}

func (p *preStops) noted(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over[id]
}

func (p *preStops) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.over, id)
}

// retain drops all but the given containers.
func (p *preStops) retain(exists map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.over {
		if !exists[id] {
			delete(p.over, id)
		}
	}
}

// endCheckPeriod is the period of checks whether a container has ended while its preStop handler
// runs. It also bounds each check.
const endCheckPeriod = time.Second

// errContainerEnded is the cause when the end of its container cancels a preStop handler.
var errContainerEnded = errors.New("the container has ended")

// preStop runs the container's preStop handler, if it has one and a grace period. It returns when
// the handler returns, the container has ended, the grace period is over, or ctx is done. A failed
// or overdue handler only causes an event. An overdue one continues until the container has
// stopped: join cancels it and waits for its end.
func (s *containerStop) preStop(ctx context.Context) (join func()) {
	handler := s.preStopHandler()
	id := s.kill.ID.ID
	if handler == nil || s.grace <= 0 || s.m.preStops.noted(id) {
		return func() {}
	}
	if s.m.cfg.Hooks == nil {
		s.failedPreStop()
		return func() {}
	}
	s.k.steps.container(s.kill.Name, fmt.Sprintf("running the preStop handler for at most %d s", s.grace))
	bound, endWait := context.WithTimeout(ctx, s.left())
	defer endWait()
	leave := s.preStopSlot(bound, handler)
	defer leave()
	if !s.m.preStops.await(bound, id) || bound.Err() != nil {
		s.preStopEnded(ctx, bound, false, nil)
		return func() {}
	}
	handling, cancel := context.WithCancelCause(ctx)
	running := s.m.preStops.run(handling, id, s.k.identity.String()+" container "+s.kill.Name, func() error {
		output, err := s.m.cfg.Hooks.Run(handling, s.pod, s.container, id, handler)
		s.m.log.Debug("preStop handler returned", "pod", s.k.identity, "container", s.kill.Name, "output", output, "err", err)
		return err
	})
	returned, ended := s.awaitPreStop(bound, running)
	if deadline, ok := bound.Deadline(); ok && returned && running.err != nil && !time.Now().Before(deadline) {
		<-bound.Done() // the runtime's timeout fired just before bound's timer
	}
	switch {
	case ended, returned && running.err != nil && handler.Exec == nil && s.containerEnded(bound):
		cancel(errContainerEnded)
		s.m.preStops.note(id)
	case returned:
		s.preStopEnded(ctx, bound, running.err == nil, running.err)
	default:
		s.preStopEnded(ctx, bound, false, nil)
	}
	return func() {
		cancel(nil)
		if !returned {
			s.joinPreStop(running)
		}
	}
}

// awaitPreStop waits until the handler has returned, the container has ended, or ctx is done.
func (s *containerStop) awaitPreStop(ctx context.Context, handler *preStopRun) (returned, ended bool) {
	check := time.NewTicker(endCheckPeriod)
	defer check.Stop()
	for {
		select {
		case <-handler.ended:
			return true, false
		case <-ctx.Done():
			return false, false
		case <-check.C:
			if s.containerEnded(ctx) {
				return false, true
			}
		}
	}
}

// containerEnded reports whether the container has exited or no longer exists, according to the runtime.
func (s *containerStop) containerEnded(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, endCheckPeriod)
	defer cancel()
	response, err := s.m.cfg.Runtime.ContainerStatus(ctx, s.kill.ID.ID, false)
	if err != nil {
		return cri.IsNotFound(err)
	}
	return response.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
}

// preStopSlot waits for a slot among the stops, so that many handlers leave the runtime time for
// other calls. It waits for at most a quarter of the grace period, then the handler runs without
// a slot. A sleep handler needs no slot.
func (s *containerStop) preStopSlot(ctx context.Context, handler *v1.LifecycleHandler) (leave func()) {
	if handler.Sleep != nil {
		return func() {}
	}
	short, cancel := context.WithTimeout(ctx, s.left()/4)
	defer cancel()
	leave, err := s.enter(short, false)
	if err != nil {
		return func() {}
	}
	return leave
}

// preStopEnded records how a handler ended and whether it may run again. bound is ctx with the
// end of the grace period as its deadline. A handler that returned or timed out is not repeated.
func (s *containerStop) preStopEnded(ctx, bound context.Context, over bool, err error) {
	switch {
	case ctx.Err() != nil && !over: // cancelled: a later attempt runs it again
	case bound.Err() != nil && !over:
		s.m.preStops.note(s.kill.ID.ID)
		s.m.log.Info("preStop handler did not end within the grace period", "pod", s.k.identity, "container", s.kill.Name)
		s.failedPreStop()
	default:
		s.m.preStops.note(s.kill.ID.ID)
		if err != nil {
			s.m.log.Info("preStop handler failed", "pod", s.k.identity, "container", s.kill.Name, "err", err)
			s.failedPreStop()
		}
	}
}

// joinPreStop waits up to stepGrace for a handler whose context is done.
func (s *containerStop) joinPreStop(handler *preStopRun) {
	if !run.Wait(handler.ended, stepGrace) {
		s.m.log.Error("preStop handler ignores its cancelled context", "pod", s.k.identity, "container", s.kill.Name)
	}
}

func (s *containerStop) preStopHandler() *v1.LifecycleHandler {
	if s.container == nil || s.container.Lifecycle == nil {
		return nil
	}
	return s.container.Lifecycle.PreStop
}

func (s *containerStop) failedPreStop() {
	ref := s.k.identity.containerRef(s.k.pod, s.kill.Name)
	s.m.cfg.Event(ref, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
}

// postStart runs the postStart handler of a container that has just started. It blocks the rest
// of the sync, as postStart handlers require. If the handler fails, the container is stopped with
// its preStop handler and grace period. If the sync was cancelled, for example by the pod's
// deletion, the kill of the pod stops it.
//
// The handler's output goes to the log but not into the event, because it may contain a secret.
func (s *podSync) postStart(ctx context.Context, c podContainer, id string) *StartError {
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return nil
	}
	s.step("running the postStart hook of " + c.String())
	output, err := "", errors.New("this agent runs no lifecycle handlers")
	if s.m.cfg.Hooks != nil {
		output, err = s.m.cfg.Hooks.Run(ctx, s.req.Pod, c.Container, id, c.Lifecycle.PostStart)
	}
	if err == nil {
		return nil
	}
	failure := &StartError{Container: c.Name, Reason: ReasonPostStartHookError, Message: "PostStartHook failed", Err: err}
	if ctx.Err() != nil {
		return failure
	}
	s.m.log.Warn("postStart hook failed", "pod", s.identity, "container", c.Name, "err", err, "output", output)
	s.m.cfg.Event(s.identity.containerRef(s.req.Pod, c.Name), v1.EventTypeWarning, "FailedPostStartHook", failure.Message)
	kill := actions.ContainerKill{
		ID:   observed.ContainerID{Runtime: s.m.cfg.RuntimeName, ID: id},
		Name: c.Name, Message: "FailedPostStartHook",
	}
	s.step("stopping " + c.String())
	s.m.killContainers(ctx, podKill{identity: s.identity, pod: s.req.Pod, status: s.req.Status}, []actions.ContainerKill{kill}, &s.result)
	return failure
}
