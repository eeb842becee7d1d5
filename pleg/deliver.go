package pleg

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// maxQueued is the number of events that wait for a slow callback. Further events are merged
// into one PodSync per pod, so that the queue is bounded by the number of pods and no pod is
// lost.
const maxQueued = 1000

// delivery calls the callbacks on a separate goroutine, so that a slow callback delays only its
// own next call.
type delivery struct {
	onEvent  func(Event)
	onHealth func(error)
	log      *slog.Logger
	wake     run.Signal

	mu     sync.Mutex
	queue  []Event
	folded map[types.UID]struct{}
	health *error // newest health that was not delivered
}

func newDelivery(cfg Config) *delivery {
	return &delivery{
		onEvent:  cfg.OnEvent,
		onHealth: cfg.OnHealth,
		log:      cfg.Logger,
		wake:     run.NewSignal(),
		folded:   map[types.UID]struct{}{},
	}
}

// add queues events and returns the number of merged ones. It never blocks.
func (d *delivery) add(events []Event) (folded int) {
	if d.onEvent == nil || len(events) == 0 {
		return 0
	}
	d.mu.Lock()
	for _, e := range events {
		if len(d.queue) < maxQueued {
			d.queue = append(d.queue, e)
		} else {
			d.folded[e.UID] = struct{}{}
			folded++
		}
	}
	d.mu.Unlock()
	d.wake.Wake()
	return folded
}

// setHealth queues a change of health. Only the newest one is kept.
func (d *delivery) setHealth(err error) {
	if d.onHealth == nil {
		return
	}
	d.mu.Lock()
	d.health = &err
	d.mu.Unlock()
	d.wake.Wake()
}

func (d *delivery) take() ([]Event, *error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	events, health := d.queue, d.health
	for uid := range d.folded {
		events = append(events, Event{UID: uid, Type: PodSync})
	}
	d.queue, d.health = nil, nil
	clear(d.folded)
	return events, health
}

func (d *delivery) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		events, health := d.take()
		if health != nil {
			guarded(d.log, "OnHealth", func() { d.onHealth(*health) })
		}
		for _, e := range events {
			if ctx.Err() != nil {
				return
			}
			guarded(d.log, "OnEvent", func() { d.onEvent(e) })
		}
	}
}

// guarded calls a callback and logs a panic.
func guarded(log *slog.Logger, name string, call func()) {
	if err := run.Guard(name, func() error { call(); return nil }); err != nil {
		log.Error("a callback panicked", "err", err, "stack", run.StackOf(err))
	}
}
