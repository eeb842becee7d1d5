package plegtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
)

// watchCases are the rules about event streams, and about a PLEG on the runtime.
func watchCases() []testCase {
	return []testCase{
		{"events name the pod that starts, exits or is removed", eventsNamePods},
		{"an event stream lasts until its context is done, and then returns an error", streamEnds},
		{"a PLEG reports the start, exit and removal of a pod", plegSees},
		{"an observation shows the latest change", observeSees},
	}
}

type stream struct {
	hints  chan types.UID
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // once ended is closed
}

func (p *trial) open(ctx context.Context) (*stream, error) {
	events, ok := p.Runtime.(pleg.EventStream)
	if !ok {
		return nil, fmt.Errorf("%w: the runtime does not implement pleg.EventStream", errSkip)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{hints: make(chan types.UID, streamBuffer), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.err = events.PodEvents(ctx, s.hint)
	}()
	// A runtime without events returns at once; others need a moment until the stream is open.
	timer := time.NewTimer(500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-s.ended:
		cancel()
		if errors.Is(s.err, pleg.ErrNoEvents) {
			return nil, fmt.Errorf("%w: %w", errSkip, s.err)
		}
		return nil, fmt.Errorf("PodEvents ended at once: %w", orNil(s.err))
	case <-timer.C:
		return s, nil
	}
}

func (s *stream) hint(uid types.UID) {
	select {
	case s.hints <- uid:
	default:
	}
}

// close ends the stream and returns an error if it ended wrongly.
func (s *stream) close(timeout time.Duration) error {
	s.cancel()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-timer.C:
		return fmt.Errorf("PodEvents has not returned %v after the end of its context", timeout)
	}
	if s.err == nil {
		return errors.New("PodEvents returned no error")
	}
	return nil
}

func orNil(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

// hinted waits for a hint about the pod.
func (s *stream) hinted(uid types.UID, what string, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		select {
		case got := <-s.hints:
			if got == uid {
				return nil
			}
		case <-s.ended:
			return fmt.Errorf("PodEvents ended: %w", orNil(s.err))
		case <-timer.C:
			return fmt.Errorf("no event named the pod %s within %v", what, timeout)
		}
	}
}

// drained drops the hints so far, and hints about recent changes.
func (s *stream) drained() {
	for {
		timer := time.NewTimer(200 * time.Millisecond)
		select {
		case <-s.hints:
			timer.Stop()
		case <-timer.C:
			return
		}
	}
}

func eventsNamePods(ctx context.Context, p *trial) {
	s, err := p.open(ctx)
	if err != nil {
		p.add(err)
		return
	}
	defer func() { p.add(s.close(p.timeout)) }()
	uid := p.newUID()
	for _, step := range []struct {
		what string
		do   func(context.Context, types.UID)
	}{{"that started", p.start}, {"whose containers ended", p.exit}, {"that was removed", p.remove}} {
		s.drained()
		step.do(ctx, uid)
		if p.failed() {
			return
		}
		p.add(s.hinted(uid, step.what, p.timeout))
	}
}

func streamEnds(ctx context.Context, p *trial) {
	s, err := p.open(ctx)
	if err != nil {
		p.add(err)
		return
	}
	s.drained()
	select {
	case <-s.ended:
		p.fail("PodEvents ended before its context was done: %w", orNil(s.err))
	default:
		p.add(s.close(p.timeout))
	}
}

// observe changes a pod step by step, with a PLEG whose first list is complete, and calls after
// with the number of each step.
func (p *trial) observe(ctx context.Context, after func(o *observer, uid types.UID, step int) error) {
	o := &observer{more: run.NewSignal()}
	ready := make(chan struct{}, 8)
	var err error
	o.PLEG, err = pleg.New(pleg.Config{
		Runtime:  p.Runtime,
		OnEvent:  o.record,
		OnHealth: func(error) { ready <- struct{}{} },
	})
	if err != nil {
		p.add(err)
		return
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- o.Run(running) }()
	select {
	case <-ready:
		uid := p.newUID()
		for i, do := range []func(context.Context, types.UID){p.start, p.exit, p.remove} {
			if do(ctx, uid); !p.failed() {
				p.add(after(o, uid, i))
			}
		}
	case <-ctx.Done():
		p.fail("the first list was never complete: %w", orNil(o.Healthy()))
	}
	cancel()
	p.add(<-done)
}

func plegSees(ctx context.Context, p *trial) {
	p.observe(ctx, func(o *observer, uid types.UID, step int) error {
		ctx, cancel := context.WithTimeout(ctx, p.timeout)
		defer cancel()
		_, err := o.when(ctx, uid, []pleg.EventType{pleg.Started, pleg.Died, pleg.Removed}[step])
		return err
	})
}

func observeSees(ctx context.Context, p *trial) {
	for range 3 {
		p.observe(ctx, func(o *observer, uid types.UID, step int) error {
			s, err := o.Observe(ctx, uid, time.Now())
			if err != nil {
				return err
			}
			if got, want := summary(s), []string{"running", "exited", "gone"}[step]; got != want {
				return fmt.Errorf("an observation that began after the change shows the pod as %s, want %s", got, want)
			}
			return nil
		})
	}
}

// summary returns the state of a pod in one word.
func summary(s *observed.Pod) string {
	switch {
	case s.Empty():
		return "gone"
	case len(s.Running()) > 0:
		return "running"
	default:
		return "exited"
	}
}
