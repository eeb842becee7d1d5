package plegtest

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
)

// streamBuffer is the number of events that wait for a slow reader of a stream.
const streamBuffer = 4096

// ErrStreamBroken is the error of a stream that BreakStreams has ended.
var ErrStreamBroken = errors.New("plegtest: the event stream is broken")

// EventedRuntime is a Runtime with events.
type EventedRuntime struct{ *Runtime }

var _ pleg.EventStream = EventedRuntime{}

// WithEvents returns the runtime with an event stream.
func (r *Runtime) WithEvents() EventedRuntime { return EventedRuntime{r} }

// FailStreams sets the fault of PodEvents. With Err or Hang, calls do not reach the stream. Open
// streams continue.
func (r EventedRuntime) FailStreams(f Fault) { r.streamFault.set(f) }

// Backlog makes each new stream begin with the last n events before it, like containerd 2.2 with
// the events of the last minute. At most 4096 are kept. Default: 0.
func (r EventedRuntime) Backlog(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backlog, r.past = min(n, streamBuffer), nil
}

// BreakStreams ends all open streams with ErrStreamBroken.
func (r EventedRuntime) BreakStreams() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.dirty {
		close(c)
	}
	r.dirty = nil
}

// PodEvents implements pleg.EventStream.
func (r EventedRuntime) PodEvents(ctx context.Context, dirty func(types.UID)) error {
	r.mu.Lock()
	r.streams++
	r.mu.Unlock()
	if err := r.streamFault.wait(ctx); err != nil {
		return err
	}
	c := r.openStream()
	defer r.closeStream(c)
	for {
		select {
		case uid, ok := <-c:
			if !ok {
				return ErrStreamBroken
			}
			dirty(uid)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r EventedRuntime) openStream() chan types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := make(chan types.UID, streamBuffer)
	for _, uid := range r.past {
		c <- uid
	}
	if r.dirty == nil {
		r.dirty = map[chan types.UID]struct{}{}
	}
	r.dirty[c] = struct{}{}
	return c
}

func (r EventedRuntime) closeStream(c chan types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.dirty, c)
}

// Deliver sets the function that decides about each event: it returns the delay of each copy,
// and no copy for a lost event. Later events may overtake delayed copies. nil, the default,
// delivers each event once without delay. deliver must not call the runtime.
func (r *Runtime) Deliver(deliver func(types.UID) []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliver = deliver
}

// Lose loses the events for which lost returns true; nil ends that. It replaces the function of
// Deliver.
func (r *Runtime) Lose(lost func(types.UID) bool) {
	if lost == nil {
		r.Deliver(nil)
		return
	}
	r.Deliver(func(uid types.UID) []time.Duration {
		if lost(uid) {
			return nil
		}
		return []time.Duration{0}
	})
}

// announce sends an event. The caller holds mu.
func (r *Runtime) announce(uid types.UID) {
	if r.deliver == nil {
		r.send(uid)
		return
	}
	for _, late := range r.deliver(uid) {
		if late <= 0 {
			r.send(uid)
			continue
		}
		time.AfterFunc(late, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.send(uid)
		})
	}
}

// send sends an event to the open streams. The caller holds mu.
func (r *Runtime) send(uid types.UID) {
	if r.backlog > 0 {
		r.past = append(r.past, uid)
		r.past = r.past[max(0, len(r.past)-r.backlog):]
	}
	for c := range r.dirty {
		select {
		case c <- uid:
		default: // a stream that is not drained loses events, like a real one
		}
	}
}
