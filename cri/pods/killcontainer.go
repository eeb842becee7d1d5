package pods

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/internal/run"
)

// killContainer stops one container: event, preStop handler, wait for its turn, stop.
func (m *Manager) killContainer(ctx context.Context, k podKill, c actions.ContainerKill) error {
	if ctx.Err() != nil {
		return run.EndOf(ctx)
	}
	pod, container := m.killSpec(ctx, k, c)
	s := containerStop{
		m: m, k: k, kill: c, pod: pod, container: container,
		grace: graceSeconds(pod, container, c.Reason, k.override), begin: time.Now(),
	}
	m.cfg.Event(k.identity.containerRef(k.pod, c.Name), v1.EventTypeNormal, "Killing", c.Message)
	err := s.run(ctx)
	k.stopOrder.done(c.Name, err)
	k.steps.container(c.Name, "")
	return err
}

type containerStop struct {
	m    *Manager
	k    podKill
	kill actions.ContainerKill
	// pod and container are the available spec, or nil.
	pod       *v1.Pod
	container *v1.Container
	// grace is in seconds, from begin on.
	grace int64
	begin time.Time
}

func (s *containerStop) run(ctx context.Context) error {
	join := s.preStop(ctx)
	defer join()
	if before := s.k.stopOrder.before(s.kill.Name); len(before) > 0 {
		s.k.steps.container(s.kill.Name, fmt.Sprintf("waiting at most %[2]v for %[1]v to stop", before, s.left().Round(time.Second)))
		if err := s.k.stopOrder.wait(ctx, s.kill.Name, s.left()); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return run.EndOf(ctx)
	}
	return s.stop(ctx)
}

// enter blocks until it gets a slot among the stops of the pod and a slot among all stops. Stops
// after a preStop handler go first.
func (s *containerStop) enter(ctx context.Context, begun bool) (leave func(), err error) {
	if s.k.stops == nil {
		return s.m.stops.enter(ctx, begun)
	}
	leavePod, err := s.k.stops.enter(ctx, begun)
	if err != nil {
		return nil, err
	}
	leaveAll, err := s.m.stops.enter(ctx, begun)
	if err != nil {
		leavePod()
		return nil, err
	}
	return func() { leaveAll(); leavePod() }, nil
}

// left returns the rest of the grace period. It is not positive after the end.
func (s *containerStop) left() time.Duration {
	return time.Duration(s.grace)*time.Second - time.Since(s.begin)
}

// stop stops the container with the rest of the grace period, in whole seconds.
func (s *containerStop) stop(ctx context.Context) error {
	leave, err := s.enter(ctx, true)
	if err != nil {
		return run.EndOf(ctx)
	}
	defer leave()
	elapsed := int64(time.Since(s.begin) / time.Second)
	grace := time.Duration(max(s.grace-elapsed, minGraceSeconds)) * time.Second
	s.k.steps.container(s.kill.Name, fmt.Sprintf("stopping within %v", grace))
	err = s.m.cfg.Runtime.StopContainer(ctx, s.kill.ID.ID, grace)
	if err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("stop container %s: %w", s.kill.ID.ID, err)
	}
	s.m.preStops.forget(s.kill.ID.ID)
	return nil
}
