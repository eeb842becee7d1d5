package plegtest

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
)

// streamBuffer is how many events wait for a slow reader of a stream.
const streamBuffer = 4096

// ErrStreamBroken is how a stream ends that BreakStreams has ended.
var ErrStreamBroken = errors.New("plegtest: the event stream is broken")

// EventedRuntime is a Runtime with events.
type EventedRuntime struct{ *Runtime }

var _ pleg.EventStream = EventedRuntime{}

// WithEvents returns the runtime with an event stream.
func (r *Runtime) WithEvents() EventedRuntime { return EventedRuntime{r} }

// FailStreams sets the fault of PodEvents: with Err or Hang it does not reach the
// stream. Open streams go on.
func (r EventedRuntime) FailStreams(f Fault) { r.streamFault.set(f) }

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
