package critest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

const (
	createdEvent = runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT
	startedEvent = runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT
	stoppedEvent = runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT
	deletedEvent = runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT
)

func eventCases() []testCase {
	return []testCase{
		{"a container's life is four events, in order", func(e *env) {
			w := e.watch(nil)
			id := e.ready(e.newPod(), "main", quits)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			e.event(w, id, stoppedEvent) // containerd sends it after the reply
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
			require.Equal(e.t, []runtimeapi.ContainerEventType{createdEvent, startedEvent, stoppedEvent, deletedEvent}, e.kinds(w, id, 4))
			var last int64
			for _, event := range w.of(id) {
				require.Positive(e.t, event.GetCreatedAt())
				require.GreaterOrEqual(e.t, event.GetCreatedAt(), last)
				last = event.GetCreatedAt()
			}
		}},
		{"a sandbox has events under its own ID", func(e *env) {
			w := e.watch(nil)
			p := e.newPod()
			require.Equal(e.t, []runtimeapi.ContainerEventType{createdEvent, startedEvent}, e.kinds(w, p.id, 2))
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, p.id))
			stopped := e.event(w, p.id, stoppedEvent) // containerd sends it after the reply
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, p.id))
			require.Equal(e.t, []runtimeapi.ContainerEventType{createdEvent, startedEvent, stoppedEvent, deletedEvent}, e.kinds(w, p.id, 4))
			require.Equal(e.t, runtimeapi.PodSandboxState_SANDBOX_NOTREADY, stopped.GetPodSandboxStatus().GetState())
		}},
		{"an event describes the pod at that moment", func(e *env) {
			w := e.watch(nil)
			p := e.newPod()
			other := e.ready(p, "other", quits)
			id := e.ready(p, "main", quits)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			states := map[runtimeapi.ContainerEventType]runtimeapi.ContainerState{
				createdEvent: runtimeapi.ContainerState_CONTAINER_CREATED,
				startedEvent: runtimeapi.ContainerState_CONTAINER_RUNNING,
				stoppedEvent: runtimeapi.ContainerState_CONTAINER_EXITED,
			}
			for kind, state := range states {
				event := e.event(w, id, kind)
				pod := event.GetPodSandboxStatus()
				require.Equal(e.t, p.id, pod.GetId())
				require.Equal(e.t, p.config.GetMetadata().GetUid(), pod.GetMetadata().GetUid())
				require.Equal(e.t, runtimeapi.PodSandboxState_SANDBOX_READY, pod.GetState())
				require.NotEmpty(e.t, pod.GetNetwork().GetIp())
				statuses := map[string]*runtimeapi.ContainerStatus{}
				for _, status := range event.GetContainersStatuses() {
					statuses[status.GetId()] = status
				}
				require.Len(e.t, statuses, 2)
				require.Equal(e.t, state, statuses[id].GetState(), "in the %v event", kind)
				require.Equal(e.t, "main", statuses[id].GetMetadata().GetName())
				require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, statuses[other].GetState())
			}
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
			left := e.event(w, id, deletedEvent).GetContainersStatuses()
			require.Len(e.t, left, 1)
			require.Equal(e.t, other, left[0].GetId())
		}},
		{"a container that ends by itself has a stopped event with its exit code", func(e *env) {
			w := e.watch(nil)
			p := e.newPod()
			id := e.start(p.id, e.container("main", writesBoth.command()...), p.config)
			e.requireShortLife(w, id)
			status := e.event(w, id, stoppedEvent).GetContainersStatuses()
			require.Len(e.t, status, 1)
			require.Equal(e.t, int32(3), status[0].GetExitCode())
			require.Positive(e.t, status[0].GetFinishedAt())
		}},
		{"a container that cannot be started has no started event", func(e *env) {
			w := e.watch(nil)
			p := e.newPod()
			id := e.create(p.id, e.container("main", "/critest/no/such/command"), p.config)
			e.refused(e.Runtime.StartContainer(e.ctx, id))
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
			e.event(w, id, deletedEvent)
			for _, event := range w.of(id) {
				require.NotEqual(e.t, startedEvent, event.GetContainerEventType())
			}
			require.Equal(e.t, createdEvent, w.of(id)[0].GetContainerEventType())
		}},
		{"every stream gets every event", func(e *env) {
			first, second := e.watch(nil), e.watch(nil)
			id := e.wholeLife(e.newPod(), "main")
			require.Equal(e.t, e.kinds(first, id, 4), e.kinds(second, id, 4))
		}},
		{"a stream ends with its context", func(e *env) {
			leaves, stays := e.watch(nil), e.watch(nil)
			leaves.cancel()
			var err error
			e.eventually("the stream's end", func() bool {
				select {
				case err = <-leaves.ended:
					return true
				default:
					return false
				}
			})
			leaves.ended = alreadyEnded()
			require.ErrorIs(e.t, err, context.Canceled)
			id := e.wholeLife(e.newPod(), "main")
			require.Len(e.t, e.kinds(stays, id, 4), 4)
			require.Empty(e.t, leaves.of(id))
		}},
		// Callers that read the state after an event rely on this: the state is never older than
		// the event.
		{"a stop can be seen before its event comes", func(e *env) {
			var mu sync.Mutex
			states := map[string]runtimeapi.ContainerState{}
			w := e.watch(func(event *runtimeapi.ContainerEventResponse) {
				if event.GetContainerEventType() != stoppedEvent {
					return
				}
				response, err := e.Runtime.ContainerStatus(e.ctx, event.GetContainerId(), false)
				mu.Lock()
				defer mu.Unlock()
				if !cri.IsNotFound(err) {
					states[event.GetContainerId()] = response.GetStatus().GetState()
				}
			})
			p := e.newPod()
			for i := range 5 {
				id := e.start(p.id, e.container(fmt.Sprintf("main%d", i), writesBoth.command()...), p.config)
				e.event(w, id, stoppedEvent)
				var state runtimeapi.ContainerState
				e.eventually("the state", func() (seen bool) {
					mu.Lock()
					defer mu.Unlock()
					state, seen = states[id]
					return seen
				})
				require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_EXITED, state)
			}
		}},
		{"no event of twenty short containers is missed", func(e *env) {
			w := e.watch(nil)
			p := e.newPod()
			var ids []string
			for i := range 20 {
				ids = append(ids, e.start(p.id, e.container(fmt.Sprintf("main%d", i), writesBoth.command()...), p.config))
			}
			for _, id := range ids {
				e.requireShortLife(w, id)
			}
		}},
	}
}

type watcher struct {
	mu     sync.Mutex
	events []*runtimeapi.ContainerEventResponse
	cancel context.CancelFunc
	ended  <-chan error
}

// watch opens a stream and returns when it delivers events, which it checks with a container in a
// new pod. It skips the case if the runtime has no events. The stream ends with the case. The
// optional also is called for each event.
func (e *env) watch(also func(*runtimeapi.ContainerEventResponse)) *watcher {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.ctx)
	w := &watcher{cancel: cancel}
	w.ended = e.async(func() error {
		return e.Runtime.GetContainerEvents(ctx, func(event *runtimeapi.ContainerEventResponse) {
			w.mu.Lock()
			w.events = append(w.events, event)
			w.mu.Unlock()
			if also != nil {
				also(event)
			}
		})
	})
	over := false
	e.t.Cleanup(func() {
		cancel()
		if !over {
			<-w.ended
		}
	})
	p := e.newPod()
	for i := uint32(0); ; i++ {
		config := e.container("knock", writesBoth.command()...)
		config.Metadata.Attempt = i
		id := e.create(p.id, config, p.config)
		require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
		wait := time.NewTimer(200 * time.Millisecond)
		select {
		case err := <-w.ended:
			over = true
			e.optional("GetContainerEvents", err)
			require.NoError(e.t, err)
		case <-wait.C:
		}
		if len(w.of(id)) == 2 {
			return w
		}
	}
}

func (w *watcher) of(id string) []*runtimeapi.ContainerEventResponse {
	w.mu.Lock()
	defer w.mu.Unlock()
	var events []*runtimeapi.ContainerEventResponse
	for _, event := range w.events {
		if event.GetContainerId() == id {
			events = append(events, event)
		}
	}
	return events
}

// kinds waits for the given number of events about id and returns their types.
func (e *env) kinds(w *watcher, id string, n int) []runtimeapi.ContainerEventType {
	e.t.Helper()
	var kinds []runtimeapi.ContainerEventType
	e.eventually(fmt.Sprintf("%d events", n), func() bool { return len(w.of(id)) >= n })
	for _, event := range w.of(id) {
		kinds = append(kinds, event.GetContainerEventType())
	}
	return kinds
}

// event waits for an event of a kind about id.
func (e *env) event(w *watcher, id string, kind runtimeapi.ContainerEventType) *runtimeapi.ContainerEventResponse {
	e.t.Helper()
	var found *runtimeapi.ContainerEventResponse
	e.eventually(kind.String(), func() bool {
		for _, event := range w.of(id) {
			if event.GetContainerEventType() == kind {
				found = event
			}
		}
		return found != nil
	})
	return found
}

// requireShortLife waits for the events of a container that ended at once. containerd sends the
// started event and the stopped event from two goroutines, in either order.
func (e *env) requireShortLife(w *watcher, id string) {
	e.t.Helper()
	kinds := e.kinds(w, id, 3)
	require.Equal(e.t, createdEvent, kinds[0])
	require.ElementsMatch(e.t, []runtimeapi.ContainerEventType{startedEvent, stoppedEvent}, kinds[1:])
}

func (e *env) wholeLife(p livePod, name string) string {
	e.t.Helper()
	id := e.ready(p, name, quits)
	require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
	require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
	return id
}

// alreadyEnded is the channel of a stream whose end was received.
func alreadyEnded() <-chan error {
	ended := make(chan error)
	close(ended)
	return ended
}
