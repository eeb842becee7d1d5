package fake

import (
	"context"
	"sync"
	"sync/atomic"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// broadcaster sends every event to every open stream. A stream's queue is unbounded, so that slow
// readers lose no events.
type broadcaster struct {
	readers atomic.Int32 // len(streams), read without the lock
	mu      sync.Mutex
	streams map[*stream]struct{}
}

// event is the content of an event message. Each receiver owns its own message, so the message is
// made when it is read; queued events should be small. An event covers all containers of its pod.
type event struct {
	id         string // of a container or a sandbox
	what       runtimeapi.ContainerEventType
	at         int64
	sandbox    *sandbox
	was        sandboxState
	containers []seen
}

func (e *event) message() *runtimeapi.ContainerEventResponse {
	return &runtimeapi.ContainerEventResponse{
		ContainerId: e.id, ContainerEventType: e.what, CreatedAt: e.at,
		PodSandboxStatus: e.sandbox.statusAs(e.was), ContainersStatuses: statuses(e.containers),
	}
}

type stream struct {
	queue []*event      // guarded by broadcaster.mu
	more  chan struct{} // has a token while queue may be non-empty
}

func newBroadcaster() *broadcaster {
	return &broadcaster{streams: map[*stream]struct{}{}}
}

func (b *broadcaster) open() *stream {
	s := &stream{more: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams[s] = struct{}{}
	b.readers.Store(int32(len(b.streams)))
	return s
}

func (b *broadcaster) drop(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.streams, s)
	b.readers.Store(int32(len(b.streams)))
}

func (b *broadcaster) take(s *stream) []*event {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := s.queue
	s.queue = nil
	return queue
}

func (b *broadcaster) send(e *event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.streams {
		s.queue = append(s.queue, e)
		select {
		case s.more <- struct{}{}:
		default:
		}
	}
}

// emit sends an event of a container. The caller holds rt.mu, so events are in the order of the
// changes, with the statuses at that moment.
func (rt *Runtime) emit(c *container, what runtimeapi.ContainerEventType) {
	rt.emitEvent(c.id, c.sandbox, what)
}

// emitSandbox sends an event of a sandbox, with the sandbox's ID.
func (rt *Runtime) emitSandbox(b *sandbox, what runtimeapi.ContainerEventType) {
	rt.emitEvent(b.id, b, what)
}

func (rt *Runtime) emitEvent(id string, b *sandbox, what runtimeapi.ContainerEventType) {
	if rt.events.readers.Load() == 0 {
		return // also avoids a larger stack for a program's goroutine, which is often here
	}
	rt.events.send(&event{
		id: id, what: what, at: rt.now().UnixNano(), sandbox: b, was: b.sandboxState, containers: b.seen(),
	})
}

// GetContainerEvents calls handle for each event from now on, until ctx is done or the runtime
// stops or is closed. Every open stream gets every event. Sandboxes have events too, with their own
// ID.
func (rt *Runtime) GetContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error {
	if err := rt.enter(ctx, "GetContainerEvents", &runtimeapi.GetEventsRequest{}); err != nil {
		return err
	}
	l := rt.currentLife()
	s := rt.events.open()
	defer rt.events.drop(s)
	for {
		select {
		case <-ctx.Done():
			return callEnded(ctx)
		case <-l.ctx.Done():
			return callEnded(l.ctx)
		case <-s.more:
		}
		for _, event := range rt.events.take(s) {
			if err := sessionEnded(ctx, l); err != nil {
				return err
			}
			handle(event.message())
		}
	}
}
