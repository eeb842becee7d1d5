package cri_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// subscriber is a caller of GetContainerEvents.
type subscriber struct {
	ended  chan error // gets what the call returned
	cancel context.CancelFunc

	mu  sync.Mutex
	got []*runtimeapi.ContainerEventResponse
}

// subscribe opens a stream of events, and waits until it is open or has ended.
// handle may be nil; it is called for each event, after it has been noted.
func (n *node) subscribe(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) *subscriber {
	s := &subscriber{ended: make(chan error, 1)}
	ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		s.ended <- n.runtime.GetContainerEvents(ctx, func(e *runtimeapi.ContainerEventResponse) {
			s.mu.Lock()
			s.got = append(s.got, e)
			s.mu.Unlock()
			if handle != nil {
				handle(e)
			}
		})
	}()
	synctest.Wait()
	return s
}

func (s *subscriber) events() []*runtimeapi.ContainerEventResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*runtimeapi.ContainerEventResponse(nil), s.got...)
}

// requireSandboxEvent checks that a fresh stream delivers.
func (n *node) requireSandboxEvent(t *testing.T) {
	t.Helper()
	s := n.subscribe(t.Context(), nil)
	id, err := n.fake.RunPodSandbox(t.Context(), podConfig("probe"), "")
	require.NoError(t, err)
	synctest.Wait()
	require.NotEmpty(t, s.events())
	require.Equal(t, id, s.events()[0].ContainerId)
	s.cancel()
	require.ErrorIs(t, <-s.ended, context.Canceled)
	require.NoError(t, n.fake.RemovePodSandbox(t.Context(), id))
}

// churn makes the fake send two events per container: created and deleted.
func (n *node) churn(t *testing.T, containers int) {
	t.Helper()
	for i := range containers {
		id, err := n.fake.CreateContainer(t.Context(), n.sandbox, containerConfig(fmt.Sprint("churn-", i)), n.pod)
		require.NoError(t, err)
		require.NoError(t, n.fake.RemoveContainer(t.Context(), id))
	}
	synctest.Wait()
}

// However a stream dies, its reader has got what came before, learns why, and can
// open another one.
func TestStreamsThatDie(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		events int           // of ten that are sent
		lives  time.Duration // after those
		code   codes.Code
		eof    bool
	}{
		"after two events":        {`3rd event: Unavailable "gone"`, 2, 0, codes.Unavailable, false},
		"at the first event":      {`1st event: Internal "broken"`, 0, 0, codes.Internal, false},
		"before the first event":  {`1st GetContainerEvents: Internal "broken"`, 0, 0, codes.Internal, false},
		"with a strange code":     {`5th event: DataLoss "lost"`, 4, 0, codes.DataLoss, false},
		"with the caller's code":  {`5th event: Canceled "not you"`, 4, 0, codes.Canceled, false},
		"with a deadline's code":  {`5th event: DeadlineExceeded "mine"`, 4, 0, codes.DeadlineExceeded, false},
		"after an hour's silence": {`1st GetContainerEvents: do, then take 1h, then Unavailable "gone"`, 10, time.Hour, codes.Unavailable, false},
		"half-closed at once":     {`1st GetContainerEvents: empty reply`, 0, 0, codes.Unknown, true},
		"half-closed in an hour":  {`1st GetContainerEvents: do, then take 1h, then empty reply`, 10, time.Hour, codes.Unknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{script: c.script})
				begin := time.Now()
				s := n.subscribe(t.Context(), nil)
				n.churn(t, 5)
				err := <-s.ended
				require.Equal(t, c.lives, time.Since(begin))
				require.Len(t, s.events(), c.events)
				requireCallFailed(t, err, "GetContainerEvents", "")
				require.Equal(t, c.code, status.Code(err), "%v", err)
				require.Equal(t, c.eof, errors.Is(err, io.EOF))
				require.NotErrorIs(t, err, context.Canceled)
				require.Equal(t, c.code == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded))
				n.requireHealthy(t)
				n.requireSandboxEvent(t)
			})
		})
	}
}

// Events that come doubled, late and out of order arrive as they were sent.
func TestEventsOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{script: "1st event: swap\n3rd event: twice\n4th event: drop\n5th event: late 1m"})
		s := n.subscribe(t.Context(), nil)
		n.churn(t, 4)
		const created, deleted = runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT
		kinds := func() (kinds []runtimeapi.ContainerEventType) {
			for _, e := range s.events() {
				kinds = append(kinds, e.ContainerEventType)
			}
			return kinds
		}
		soon := []runtimeapi.ContainerEventType{deleted, created, created, created, deleted, created, deleted}
		require.Equal(t, soon, kinds())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, append(soon, created), kinds())
		s.cancel()
		<-s.ended
	})
}

// A stream may be silent for a day: it has no deadline.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{})
		s := n.subscribe(t.Context(), nil)
		time.Sleep(24 * time.Hour)
		n.churn(t, 1)
		require.Len(t, s.events(), 2)
		s.cancel()
		require.ErrorIs(t, <-s.ended, context.Canceled)
	})
}

// A reader that needs a minute for each event gets all of them, in order, and
// holds up neither the runtime nor other calls nor other readers. It may make
// calls itself.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{})
		slow := n.subscribe(t.Context(), func(*runtimeapi.ContainerEventResponse) {
			_, err := n.runtime.ListContainers(t.Context(), nil)
			require.NoError(t, err)
			time.Sleep(time.Minute)
		})
		quick := n.subscribe(t.Context(), nil)
		begin := time.Now()
		n.churn(t, 500)
		require.Zero(t, time.Since(begin))
		require.Len(t, slow.events(), 1)
		require.Len(t, quick.events(), 1000)
		n.requireHealthy(t)
		time.Sleep(1000 * time.Minute)
		require.Len(t, slow.events(), 1000)
		for i, e := range quick.events() {
			require.Equal(t, e.ContainerId, slow.events()[i].ContainerId)
			require.Equal(t, e.ContainerEventType, slow.events()[i].ContainerEventType)
		}
		for _, s := range []*subscriber{slow, quick} {
			s.cancel()
			require.ErrorIs(t, <-s.ended, context.Canceled)
		}
	})
}

// A context that ends while an event is handled ends the stream behind it, though
// more events have arrived.
func TestContextEndsInTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{})
		enough := errors.New("seen enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		handled := 0
		s := n.subscribe(ctx, func(*runtimeapi.ContainerEventResponse) {
			if handled++; handled == 3 {
				time.Sleep(time.Minute) // until all events have arrived
				cancel(enough)
			}
		})
		n.churn(t, 5)
		err := <-s.ended
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, enough)
		require.Len(t, s.events(), 3)
		synctest.Wait()
		require.Equal(t, codes.Canceled, status.Code(n.calls("GetContainerEvents")[0].Err), "the runtime knows")
	})
}

// A reader that panics loses its stream and nothing else: the panic reaches the
// caller, the runtime learns that the stream is over, and the client goes on.
func TestReaderThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{})
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_ = n.runtime.GetContainerEvents(t.Context(), func(*runtimeapi.ContainerEventResponse) { panic("oops") })
		}()
		synctest.Wait()
		n.churn(t, 1)
		require.Equal(t, "oops", <-panicked)
		synctest.Wait()
		require.Len(t, n.calls("GetContainerEvents"), 1)
		n.requireHealthy(t)
		n.requireSandboxEvent(t)
		require.NoError(t, n.runtime.Close(), "Close does not wait for the stream")
	})
}

// Streams do not know of each other.
func TestTwoStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{script: `4th event: Unavailable "gone"`}) // the second event of one of them
		a, b := n.subscribe(t.Context(), nil), n.subscribe(t.Context(), nil)
		n.churn(t, 3)
		var broken, well *subscriber
		select {
		case err := <-a.ended:
			require.Equal(t, codes.Unavailable, status.Code(err))
			broken, well = a, b
		case err := <-b.ended:
			require.Equal(t, codes.Unavailable, status.Code(err))
			broken, well = b, a
		}
		require.Less(t, len(broken.events()), 4)
		require.Len(t, well.events(), 6)
		n.churn(t, 1)
		require.Len(t, well.events(), 8)
		well.cancel()
		require.ErrorIs(t, <-well.ended, context.Canceled)
	})
}

// Streams that are opened and end in every way a hundred times leave nothing.
func TestStreamsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{script: `every 4th GetContainerEvents: do, then take 1s, then Unavailable "gone"
every 5th GetContainerEvents: do, then take 1s, then empty reply
every 6th GetContainerEvents: Internal "no"`})
		goroutines := 0
		for round := range 100 {
			s := n.subscribe(t.Context(), nil)
			n.churn(t, 1)
			after(t, 2*time.Second, s.cancel)
			require.Error(t, <-s.ended)
			synctest.Wait()
			if round == 5 {
				goroutines = runtime.NumGoroutine()
			}
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+slack)
	})
}

// Close ends streams and waits for what their readers are doing.
func TestCloseWaitsForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{})
		s := n.subscribe(t.Context(), func(*runtimeapi.ContainerEventResponse) { time.Sleep(time.Minute) })
		idle := n.subscribe(t.Context(), func(*runtimeapi.ContainerEventResponse) {})
		idle.cancel()
		require.ErrorIs(t, <-idle.ended, context.Canceled)
		n.churn(t, 3)
		begin := time.Now()
		require.NoError(t, n.runtime.Close())
		require.Equal(t, time.Minute, time.Since(begin))
		require.ErrorIs(t, <-s.ended, cri.ErrClosed)
		require.Len(t, s.events(), 1)
	})
}
