package pods

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// preStops remembers the containers, by ID, whose preStop handler has come to its
// end, so that a second try to stop them does not run it again. The zero value
// remembers none.
type preStops struct {
	mu   sync.Mutex
	over map[string]bool
}

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

// retain forgets all but the given containers.
func (p *preStops) retain(exists map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.over {
		if !exists[id] {
			delete(p.over, id)
		}
	}
}

// preStop runs the container's preStop handler, if it has one and there is time
// for it. It returns when the handler does, when the grace period is over and when
// ctx ends. A handler that fails, or that would take longer, is an event and nothing
// more. The returned function waits for a handler that was ended to notice.
func (s *containerStop) preStop(ctx context.Context) (join func()) {
	handler := s.preStopHandler()
	id := s.kill.ID.ID
	if handler == nil || s.grace <= 0 || s.m.preStops.noted(id) {
		return func() {}
	}
	if s.m.cfg.Hooks == nil {
		s.failedPreStop("PreStopHook failed: no lifecycle handlers are run here")
		return func() {}
	}
	s.k.steps.container(s.kill.Name, fmt.Sprintf("preStop handler, %ds at most", s.grace))
	bound, cancel := context.WithTimeoutCause(ctx, s.left(), errGraceOver)
	ended := make(chan error, 1)
	go func() {
		output, err := s.m.cfg.Hooks.Run(bound, s.pod, s.container, id, handler)
		s.m.log.Debug("preStop handler", "pod", s.k.identity, "container", s.kill.Name, "output", output, "err", err)
		ended <- err
	}()
	err, returned := await(bound, ended)
	switch over := returned && err == nil; {
	case ctx.Err() != nil && !over: // it was called off, and will be run again
	case bound.Err() != nil && !over:
		s.m.preStops.note(id)
		s.failedPreStop("PreStopHook did not end within the grace period")
	default:
		s.m.preStops.note(id)
		if err != nil {
			s.m.log.Info("preStop handler failed", "pod", s.k.identity, "container", s.kill.Name, "err", err)
			s.failedPreStop("PreStopHook failed")
		}
	}
	return func() {
		cancel()
		if !returned {
			s.joinPreStop(ended)
		}
	}
}

// await returns what a handler returned, unless ctx ends before.
func await(ctx context.Context, ended <-chan error) (err error, returned bool) {
	select {
	case err := <-ended:
		return err, true
	case <-ctx.Done():
		return nil, false
	}
}

// joinPreStop waits for a handler whose context has ended, but not for ever.
func (s *containerStop) joinPreStop(ended <-chan error) {
	timer := time.NewTimer(s.m.cfg.StepGrace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		s.m.log.Error("a preStop handler ignores the end of its context", "pod", s.k.identity, "container", s.kill.Name)
	}
}

// preStopHandler returns the container's handler, or nil.
func (s *containerStop) preStopHandler() *v1.LifecycleHandler {
	if s.container == nil || s.container.Lifecycle == nil {
		return nil
	}
	return s.container.Lifecycle.PreStop
}

func (s *containerStop) failedPreStop(message string) {
	ref := s.k.identity.kindRef(kindOf(s.k.pod, s.kill.Name), s.kill.Name)
	s.m.cfg.Event(ref, v1.EventTypeWarning, "FailedPreStopHook", message)
}
