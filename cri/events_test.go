package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func sendEvents(stream grpc.ServerStream, n int) error {
	for i := range n {
		if err := stream.SendMsg(&runtimeapi.ContainerEventResponse{ContainerId: fmt.Sprint(i)}); err != nil {
			return err
		}
	}
	return nil
}

// sends sets a stream that sends n events and then stays open.
func (s *script) sends(n int) {
	s.stream("GetContainerEvents", func(stream grpc.ServerStream) error {
		if err := sendEvents(stream, n); err != nil {
			return err
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	})
}

type subscriber struct {
	ended  chan error
	cancel context.CancelCauseFunc

	mu  sync.Mutex
	got []string
}

// subscribe opens an event stream and waits until the bubble is idle. handle is called after each
// recorded event. It may be nil.
func subscribe(t *testing.T, client *RuntimeClient, handle func(*subscriber)) *subscriber {
	s := &subscriber{ended: make(chan error, 1)}
	var ctx context.Context
	ctx, s.cancel = context.WithCancelCause(t.Context())
	go func() {
		s.ended <- client.GetContainerEvents(ctx, func(e *runtimeapi.ContainerEventResponse) {
			s.mu.Lock()
			s.got = append(s.got, e.ContainerId)
			s.mu.Unlock()
			if handle != nil {
				handle(s)
			}
		})
	}()
	synctest.Wait()
	return s
}

func (s *subscriber) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.got...)
}

// A stream has no deadline. Its error contains the cause of the caller's context.
func TestEventsArriveInOrderUntilCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.sends(100)
		sub := subscribe(t, n.runtime, nil)
		time.Sleep(24 * time.Hour)
		require.Empty(t, sub.ended)
		enough := errors.New("seen enough")
		sub.cancel(enough)
		err := <-sub.ended
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, enough)
		requireCallError(t, err, "GetContainerEvents", "")
		require.False(t, s.last("GetContainerEvents").bounded)
		require.Len(t, sub.events(), 100)
		require.Equal(t, "99", sub.events()[99])
	})
}

func TestNothingIsHandledAfterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.sends(50)
		sub := subscribe(t, n.runtime, func(sub *subscriber) {
			if len(sub.events()) == 3 {
				time.Sleep(time.Minute) // until all events have arrived
				sub.cancel(nil)
			}
		})
		require.ErrorIs(t, <-sub.ended, context.Canceled)
		require.Len(t, sub.events(), 3)
	})
}

// When a stream breaks, its reader has received all earlier events, receives the error, and can
// open a new stream.
func TestStreamsThatDie(t *testing.T) {
	for name, c := range map[string]struct {
		events int
		lives  time.Duration
		ends   error
		want   codes.Code
	}{
		"lacking (containerd 1.6)": {0, 0, status.Error(codes.Unimplemented, "unknown method"), codes.Unimplemented},
		"at once":                  {0, 0, status.Error(codes.Internal, "lost the daemon"), codes.Internal},
		"after two events":         {2, 0, status.Error(codes.Unavailable, "gone"), codes.Unavailable},
		"with a strange code":      {4, 0, status.Error(codes.DataLoss, "lost"), codes.DataLoss},
		"with the caller's code":   {4, 0, status.Error(codes.Canceled, "not you"), codes.Canceled},
		"with a deadline's code":   {4, 0, status.Error(codes.DeadlineExceeded, "mine"), codes.DeadlineExceeded},
		"after an hour":            {1, time.Hour, status.Error(codes.Unavailable, "gone"), codes.Unavailable},
		"closed by the runtime":    {1, time.Hour, nil, codes.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, n := bothClients(t)
				s.stream("GetContainerEvents", func(stream grpc.ServerStream) error {
					require.NoError(t, sendEvents(stream, c.events))
					time.Sleep(c.lives)
					return c.ends
				})
				begin := time.Now()
				sub := subscribe(t, n.runtime, nil)
				err := <-sub.ended
				require.Equal(t, c.lives, time.Since(begin))
				require.Len(t, sub.events(), c.events)
				requireCallError(t, err, "GetContainerEvents", "")
				require.Equal(t, c.want, status.Code(err), "%v", err)
				require.Equal(t, c.ends == nil, errors.Is(err, io.EOF))
				require.NotErrorIs(t, err, context.Canceled)
				require.Equal(t, c.want == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded))
				requireNewStream(t, s, n.runtime)
			})
		})
	}
}

// requireNewStream checks that a new stream delivers events.
func requireNewStream(t *testing.T, s *script, client *RuntimeClient) {
	t.Helper()
	s.sends(1)
	sub := subscribe(t, client, nil)
	require.Equal(t, []string{"0"}, sub.events())
	sub.cancel(nil)
	require.ErrorIs(t, <-sub.ended, context.Canceled)
}

// An event contains its pod's status and can be as large as a list. An event that is too large
// breaks the stream with that reason; a later stream works.
func TestTooLargeEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.stream("GetContainerEvents", func(stream grpc.ServerStream) error {
			return stream.SendMsg(&runtimeapi.ContainerEventResponse{ContainerId: strings.Repeat("x", 17*mebibyte)})
		})
		sub := subscribe(t, n.runtime, nil)
		err := <-sub.ended
		require.Empty(t, sub.events())
		requireCallError(t, err, "GetContainerEvents", "")
		require.ErrorIs(t, err, ErrReplyTooLarge)
		requireNewStream(t, s, n.runtime)
	})
}

// A reader that takes a minute per event receives all events in order. It delays neither the
// runtime nor other calls nor other readers, and may make calls itself.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.sends(1000)
		begin := time.Now()
		slow := subscribe(t, n.runtime, func(*subscriber) {
			_, err := n.runtime.ListContainers(t.Context(), nil)
			require.NoError(t, err)
			time.Sleep(time.Minute)
		})
		quick := subscribe(t, n.runtime, nil)
		_, err := n.runtime.Version(t.Context())
		require.NoError(t, err)
		require.Zero(t, time.Since(begin))
		require.Len(t, slow.events(), 1)
		require.Len(t, quick.events(), 1000)
		time.Sleep(1000 * time.Minute)
		require.Equal(t, quick.events(), slow.events())
		for _, sub := range []*subscriber{slow, quick} {
			sub.cancel(nil)
			require.ErrorIs(t, <-sub.ended, context.Canceled)
		}
	})
}

// A panic of a handler reaches the caller and ends only its stream. The client stays usable.
func TestReaderThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.sends(1)
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_ = n.runtime.GetContainerEvents(t.Context(), func(*runtimeapi.ContainerEventResponse) { panic("oops") })
		}()
		require.Equal(t, "oops", <-panicked)
		requireNewStream(t, s, n.runtime)
		require.NoError(t, n.runtime.Close(), "Close does not wait for the stream")
	})
}

// Ended streams leak no goroutines.
func TestStreamsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		goroutines := 0
		for round := range 30 {
			s.sends(1)
			if round%3 > 0 {
				s.stream("GetContainerEvents", func(grpc.ServerStream) error {
					return map[int]error{2: status.Error(codes.Unavailable, "gone")}[round%3]
				})
			}
			sub := subscribe(t, n.runtime, nil)
			sub.cancel(nil)
			require.Error(t, <-sub.ended)
			synctest.Wait()
			if round == 5 {
				goroutines = runtime.NumGoroutine()
			}
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+5)
	})
}

// Close ends streams and waits for running handlers.
func TestCloseWaitsForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.sends(3)
		sub := subscribe(t, n.runtime, func(*subscriber) { time.Sleep(time.Minute) })
		begin := time.Now()
		require.NoError(t, n.runtime.Close())
		require.Equal(t, time.Minute, time.Since(begin))
		require.ErrorIs(t, <-sub.ended, ErrClosed)
		require.Len(t, sub.events(), 1)
	})
}
