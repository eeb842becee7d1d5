package script

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// delivery is the order in which a stream's events reach its reader. It has no
// clock: the time is told.
type delivery struct {
	queue []pendingEvent // by due; those due together in the order they came
	held  []pendingEvent // go after the next event
	free  time.Time
}

// pendingEvent is an event to be delivered, or the error that breaks the stream.
type pendingEvent struct {
	due   time.Time
	event *runtimeapi.ContainerEventResponse
	err   error
}

// add puts an event where the plan wants it.
func (d *delivery) add(now time.Time, event *runtimeapi.ContainerEventResponse, plan plan) {
	if now.After(d.free) {
		d.free = now
	}
	d.free = d.free.Add(plan.latency)
	deliver := true
	for _, step := range plan.steps {
		switch step.Kind {
		case KindTake:
			d.free = d.free.Add(step.Min)
		case KindDo:
			d.insert(pendingEvent{due: d.free, event: event})
			deliver = false
		case KindFail:
			d.insert(pendingEvent{due: d.free, err: fault(callEvents, step)})
			return
		case KindDrop:
			return
		case KindTwice:
			again := proto.Clone(event).(*runtimeapi.ContainerEventResponse) // receivers own what they get
			d.insert(pendingEvent{due: d.free, event: again})
		case KindLate:
			d.insert(pendingEvent{due: d.free.Add(step.Min), event: event})
			return
		case KindSwap:
			d.held = append(d.held, pendingEvent{event: event})
			return
		}
	}
	if deliver {
		d.insert(pendingEvent{due: d.free, event: event})
	}
}

// insert puts an event in the queue, and behind it what was held for it.
func (d *delivery) insert(p pendingEvent) {
	i, _ := slices.BinarySearchFunc(d.queue, p.due, func(q pendingEvent, due time.Time) int {
		if q.due.After(due) {
			return 1
		}
		return -1
	})
	d.queue = slices.Insert(d.queue, i, p)
	held := d.held
	d.held = nil
	for _, h := range held {
		h.due = p.due
		d.insert(h)
	}
}

// take returns the first event if it is due; else how long until one is, zero
// when there is none.
func (d *delivery) take(now time.Time) (p pendingEvent, ok bool, wait time.Duration) {
	if len(d.queue) == 0 {
		return pendingEvent{}, false, 0
	}
	if wait := d.queue[0].due.Sub(now); wait > 0 {
		return pendingEvent{}, false, wait
	}
	p = d.queue[0]
	d.queue = d.queue[1:]
	return p, true, 0
}
