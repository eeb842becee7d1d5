package cri

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type eventStream = grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]

func sendEvents(stream eventStream, n int) error {
	for i := range n {
		if err := stream.Send(&runtimeapi.ContainerEventResponse{ContainerId: fmt.Sprint(i)}); err != nil {
			return err
		}
	}
	return nil
}

func TestEventsArriveInOrderUntilCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.events = func(stream eventStream) error {
			if err := sendEvents(stream, 100); err != nil {
				return err
			}
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		client := dialRuntime(t, s.inMemory(t))
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(24*time.Hour, cancel).Stop()
		begin := time.Now()
		var got []string
		err := client.GetContainerEvents(ctx, func(e *runtimeapi.ContainerEventResponse) { got = append(got, e.ContainerId) })
		require.ErrorIs(t, err, context.Canceled)
		requireCallError(t, err, "GetContainerEvents")
		require.Equal(t, 24*time.Hour, time.Since(begin), "a stream has no deadline")
		require.False(t, s.calls("GetContainerEvents")[0].bounded)
		require.Len(t, got, 100)
		require.Equal(t, "99", got[99])
	})
}

func TestNothingIsHandledAfterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.events = func(stream eventStream) error { return sendEvents(stream, 50) }
		client := dialRuntime(t, s.inMemory(t))
		ctx, cancel := context.WithCancel(t.Context())
		handled := 0
		err := client.GetContainerEvents(ctx, func(*runtimeapi.ContainerEventResponse) {
			handled++
			cancel()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, handled)
	})
}

func TestEventsEndings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		client := dialRuntime(t, s.inMemory(t))
		ignore := func(*runtimeapi.ContainerEventResponse) {}

		err := client.GetContainerEvents(t.Context(), ignore)
		require.True(t, IsUnimplemented(err), "containerd 1.6")

		s.events = func(stream eventStream) error { return sendEvents(stream, 1) }
		err = client.GetContainerEvents(t.Context(), ignore)
		require.ErrorIs(t, err, io.EOF)
		requireCallError(t, err, "GetContainerEvents")

		s.events = func(eventStream) error { return status.Error(codes.Internal, "lost the daemon") }
		err = client.GetContainerEvents(t.Context(), ignore)
		require.EqualError(t, err, "runtime unix:///run/scripted.sock: GetContainerEvents: Internal: lost the daemon")
	})
}

// The runtime dies in the middle of a stream, and comes back on the same socket.
func TestRuntimeDiesMidStream(t *testing.T) {
	socket := socketPath(t)
	s := newScript()
	s.events = func(stream eventStream) error {
		if err := sendEvents(stream, 1); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	}
	stop := s.serve(listenUnix(t, socket))
	client := dialRuntime(t, ClientConfig{Endpoint: socket})
	for range 2 {
		got, ended := make(chan string), make(chan error)
		go func() {
			ended <- client.GetContainerEvents(t.Context(), func(e *runtimeapi.ContainerEventResponse) { got <- e.ContainerId })
		}()
		require.Equal(t, "0", <-got)
		stop()
		err := <-ended
		require.ErrorContains(t, err, "runtime unix://"+socket+": GetContainerEvents: Unavailable: ")

		stop = s.serve(listenUnix(t, socket))
		require.Eventually(t, func() bool {
			_, err := client.Version(t.Context())
			return err == nil
		}, time.Minute, time.Millisecond)
	}
	stop()
}

func TestCloseEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.events = func(stream eventStream) error { <-stream.Context().Done(); return nil }
		client := dialRuntime(t, s.inMemory(t))
		ended := make(chan error, 1)
		go func() {
			ended <- client.GetContainerEvents(t.Context(), func(*runtimeapi.ContainerEventResponse) {})
		}()
		synctest.Wait()
		require.NoError(t, client.Close())
		require.ErrorIs(t, <-ended, ErrClosed)
	})
}
