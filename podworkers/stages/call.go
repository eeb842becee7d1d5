package stages

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
)

// lane is a mutual exclusion of stage calls. Each pod has one lane, and the listing of each
// stage has one.
type lane struct {
	uid   types.UID
	stage string
}

// call is one call of a method of a stage.
type call struct {
	on      lane
	name    string // name describes the call in steps and errors; of is its object (the pod)
	of      string
	timeout time.Duration
	f       func(context.Context) error
	// begin, cancelled and end record the progress, under List.mu. They may be nil.
	begin, cancelled func(now time.Time)
	end              func(err error, now time.Time)

	since time.Time
	done  chan struct{} // closed when f has returned; err is its result
	err   error
}

// do makes a call in a new goroutine. If the call ignores its context, do returns without it,
// and its lane becomes free when it returns.
func (l *List) do(ctx context.Context, c *call) error {
	if err := l.take(ctx, c); err != nil {
		return err
	}
	podworkers.SetStep(ctx, c.name)
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	l.running.Go(c.name+c.of, func() {
		err := errGoexit
		defer func() { l.ended(c, err) }()
		err = run.Guard("the stage", func() error { return c.f(ctx) })
	})
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	l.isCancelled(c)
	if run.Wait(c.done, cancelGrace) {
		return c.err
	}
	return fmt.Errorf("%w: %s since %s: %w", ErrUnresponsive, c.name, c.since.Format(time.RFC3339), ctx.Err())
}

// take waits for the lane, at most cancelGrace per call that occupies it.
func (l *List) take(ctx context.Context, c *call) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		other := l.tryTake(c)
		if other == nil {
			return nil
		}
		podworkers.SetStep(ctx, "waiting for the end of "+other.name)
		select {
		case <-other.done:
		case <-ctx.Done():
		case <-time.After(cancelGrace):
			return fmt.Errorf("%w: %s since %s", ErrUnresponsive, other.name, other.since.Format(time.RFC3339))
		}
	}
}

// tryTake takes the lane, or returns the call that occupies it.
func (l *List) tryTake(c *call) (other *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.calls[c.on]; other != nil {
		return other
	}
	c.since, c.done = time.Now(), make(chan struct{})
	l.calls[c.on] = c
	if c.begin != nil {
		c.begin(c.since)
	}
	return nil
}

func (l *List) ended(c *call, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, c.on)
	c.err = err
	if c.end != nil {
		c.end(err, time.Now())
	}
	close(c.done)
}

// isCancelled records that the context of a running call is done.
func (l *List) isCancelled(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.cancelled != nil && l.calls[c.on] == c {
		c.cancelled(time.Now())
	}
}
