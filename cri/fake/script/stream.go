package script

import (
	"context"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// getEvents is GetContainerEvents. Its do is the subscription: the steps behind
// it are taken while events are delivered, and a result among them ends the stream.
func (p *Player) getEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error {
	return p.observed(ctx, callEvents, about{}, func(plan plan) error {
		var after []Step
		for i, step := range plan.steps {
			if step.Kind == KindDo {
				plan.steps, after = plan.steps[:i], plan.steps[i+1:]
				break
			}
		}
		x := &exchange{call: callEvents, clear: func() {}, do: func(ctx context.Context) error {
			return p.subscribe(ctx, after, handle)
		}}
		return p.perform(ctx, plan, x)
	})
}

// subscription is one open stream: events come in on one goroutine and go out on
// the caller's.
type subscription struct {
	player *Player
	more   chan struct{} // holds a token when there may be something new

	mu       sync.Mutex
	delivery delivery
	over     bool // the stream ends, after what is due
	err      error
}

// subscribe reads events until the stream, the context or the script ends it. It
// returns when both of its goroutines have.
func (p *Player) subscribe(ctx context.Context, after []Step, handle func(*runtimeapi.ContainerEventResponse)) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &subscription{player: p, more: make(chan struct{}, 1)}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		s.end(p.runtime.GetContainerEvents(ctx, func(event *runtimeapi.ContainerEventResponse) {
			s.add(ctx, event)
		}))
	})
	running.Go(func() {
		for _, step := range after {
			if step.Kind.decides() {
				s.end(outcome(callEvents, step))
				return
			}
			if err := p.pause(ctx, step); err != nil {
				s.end(err)
				return
			}
		}
	})
	return s.deliver(ctx, handle)
}

// add takes an event in.
func (s *subscription) add(ctx context.Context, event *runtimeapi.ContainerEventResponse) {
	var object Object
	if s.player.objects {
		object = s.player.ids.event(ctx, event)
	}
	plan := s.player.matcher.decide(eventSubject(event.GetContainerEventType()), &object)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delivery.add(time.Now(), event, plan)
	s.wake()
}

// end ends the stream once what is due has been delivered; only the first end counts.
func (s *subscription) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.over, s.err = true, err
	}
	s.wake()
}

func (s *subscription) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// deliver hands events to the reader when they are due. What comes too late for
// the end of the stream is lost.
func (s *subscription) deliver(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		s.mu.Lock()
		next, ok, wait := s.delivery.take(time.Now())
		over, err := s.over, s.err
		s.mu.Unlock()
		switch {
		case ok && next.err != nil:
			return next.err
		case ok:
			handle(next.event)
			continue
		case over:
			return err
		}
		var due <-chan time.Time
		if wait > 0 {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-s.more:
		case <-due:
		case <-ctx.Done():
		}
	}
	return contextError(ctx)
}
