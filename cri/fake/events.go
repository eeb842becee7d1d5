package fake

import (
	"context"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// broadcaster hands every event to every open stream. A stream's queue has no
// bound: its reader decides how fast it goes, and nothing is lost.
type broadcaster struct {
	mu      sync.Mutex
	streams map[*stream]struct{}
	done    chan struct{}
	closed  bool
}

// stream is one subscription.
type stream struct {
	queue []*runtimeapi.ContainerEventResponse // guarded by broadcaster.mu
	more  chan struct{}                        // holds a token while queue may be non-empty
}

func newBroadcaster() *broadcaster {
	return &broadcaster{streams: map[*stream]struct{}{}, done: make(chan struct{})}
}

func (b *broadcaster) open() *stream {
	s := &stream{more: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams[s] = struct{}{}
	return s
}

func (b *broadcaster) drop(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.streams, s)
}

func (b *broadcaster) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
}

func (b *broadcaster) take(s *stream) []*runtimeapi.ContainerEventResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := s.queue
	s.queue = nil
	return queue
}

// send queues what build makes, anew for each stream, since receivers own it.
func (b *broadcaster) send(build func() *runtimeapi.ContainerEventResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.streams) == 0 {
		return
	}
	for s := range b.streams {
		s.queue = append(s.queue, build())
		select {
		case s.more <- struct{}{}:
		default:
		}
	}
}

// emit sends an event of a container. rt.mu is held, so events come in the order
// of what they tell, and the statuses in them are those of that moment.
func (rt *Runtime) emit(c *container, what runtimeapi.ContainerEventType) {
	rt.emitEvent(c.id, c.sandbox, what)
}

// emitSandbox sends an event of a sandbox, which goes by the sandbox's ID.
func (rt *Runtime) emitSandbox(b *sandbox, what runtimeapi.ContainerEventType) {
	rt.emitEvent(b.id, b, what)
}

func (rt *Runtime) emitEvent(id string, b *sandbox, what runtimeapi.ContainerEventType) {
	if rt.cfg.NoEvents {
		return
	}
	rt.events.send(func() *runtimeapi.ContainerEventResponse {
		return &runtimeapi.ContainerEventResponse{
			ContainerId:        id,
			ContainerEventType: what,
			CreatedAt:          time.Now().UnixNano(),
			PodSandboxStatus:   b.status(),
			ContainersStatuses: b.statuses(),
		}
	})
}

// GetContainerEvents calls handle for each event from now on, until ctx ends or
// the runtime is closed. Any number of streams may be open; each gets every
// event. Sandboxes have events too, under their own ID.
func (rt *Runtime) GetContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error {
	if err := rt.enter(ctx, "GetContainerEvents", &runtimeapi.GetEventsRequest{}); err != nil {
		return err
	}
	if rt.cfg.NoEvents {
		return unimplemented("GetContainerEvents")
	}
	s := rt.events.open()
	defer rt.events.drop(s)
	for {
		select {
		case <-ctx.Done():
			return contextError(ctx.Err())
		case <-rt.events.done:
			return closedError()
		case <-s.more:
		}
		for _, event := range rt.events.take(s) {
			if ctx.Err() != nil {
				return contextError(ctx.Err())
			}
			handle(event)
		}
	}
}
