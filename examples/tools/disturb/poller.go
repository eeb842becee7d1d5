package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// resource is a path of the API server, read as objects.
type resource struct {
	path string
	read func(body []byte) (objects, error)
}

// poller reads resources repeatedly and records their transitions.
type poller struct {
	get    func(ctx context.Context, path string) ([]byte, error)
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu          sync.Mutex
	began       time.Time
	transitions []transition
	first, last []objects // by resource
}

// startPoller reads each resource once, and then every pollPeriod until stop is called. A failed
// read is skipped.
func startPoller(ctx context.Context, get func(ctx context.Context, path string) ([]byte, error), resources []resource) (*poller, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &poller{get: get, cancel: cancel}
	for _, r := range resources {
		state, err := p.read(ctx, r)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("%s: %w", r.path, err)
		}
		_, state = diff(nil, state)
		p.first, p.last = append(p.first, state), append(p.last, state)
	}
	p.began = time.Now()
	for i, r := range resources {
		p.tasks.Go(func() { p.run(ctx, i, r) })
	}
	return p, nil
}

func (p *poller) read(ctx context.Context, r resource) (objects, error) {
	body, err := p.get(ctx, r.path)
	if err != nil {
		return nil, err
	}
	return r.read(body)
}

func (p *poller) run(ctx context.Context, i int, r resource) {
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if state, err := p.read(ctx, r); err == nil {
			p.take(i, state)
		}
	}
}

func (p *poller) take(i int, state objects) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, now := diff(p.last[i], state)
	p.last[i] = now
	p.addLocked(found)
}

// add records transitions that no resource shows.
func (p *poller) add(found ...transition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(found)
}

func (p *poller) addLocked(found []transition) {
	for _, t := range found {
		t.After = time.Since(p.began)
		p.transitions = append(p.transitions, t)
	}
}

// stop returns all transitions, and the differences between the last state and the first.
func (p *poller) stop() (all, remaining []transition) {
	p.cancel()
	p.tasks.Wait()
	for i := range p.first {
		found, _ := diff(p.first[i], existing(p.last[i]))
		for _, t := range found {
			if t.To != t.From+again {
				remaining = append(remaining, t)
			}
		}
	}
	return p.transitions, remaining
}

// existing returns the objects that are present.
func existing(all objects) objects {
	out := objects{}
	for name, fields := range all {
		if fields[existence].text == present {
			out[name] = fields
		}
	}
	return out
}
