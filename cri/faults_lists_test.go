package cri_test

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/cri"
)

// meddler stands between the fake's streamed lists and the wire.
type meddler struct {
	// before is called before part n of a list is sent, counted from 1, and with
	// 0 before anything is. An error ends the stream.
	before func(ctx context.Context, part int) error

	mu    sync.Mutex
	asked []string // the calls that came
}

func (m *meddler) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainStreamInterceptor(m.intercept)}
}

func (m *meddler) intercept(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	m.mu.Lock()
	m.asked = append(m.asked, path.Base(info.FullMethod))
	m.mu.Unlock()
	if err := m.before(stream.Context(), 0); err != nil {
		return err
	}
	return handler(service, &meddledStream{ServerStream: stream, before: m.before})
}

// count tells how often a streaming call came.
func (m *meddler) count(call string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(m.asked), func(c string) bool { return c != call }))
}

type meddledStream struct {
	grpc.ServerStream
	before func(context.Context, int) error
	sent   int
}

func (s *meddledStream) SendMsg(part any) error {
	s.sent++
	if err := s.before(s.Context(), s.sent); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(part)
}

// streaming asks for streamed lists.
func streaming() cri.ClientConfig { return cri.ClientConfig{StreamLists: true} }

// partly is the size of an entry of which no two fit into a part.
const partly = 600 << 10

// lists are the calls that have a streaming form, by its name.
func lists() map[string]string {
	return map[string]string{
		"StreamPodSandboxes": "ListPodSandbox", "StreamContainers": "ListContainers",
		"StreamContainerStats": "ListContainerStats", "StreamPodSandboxStats": "ListPodSandboxStats",
		"StreamPodSandboxMetrics": "ListPodSandboxMetrics", "StreamImages": "ListImages",
	}
}

// Lists of any size get through in parts.
func TestStreamedListOfTwentyMebibytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meddler{before: func(context.Context, int) error { return nil }}
		n := newNode(t, nodeConfig{client: streaming(), server: m.options()})
		n.addContainers(t, 20, mebibyte)
		want, err := n.fake.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		got, err := n.runtime.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, got, 21)
		for i := range want {
			require.Equal(t, want[i].Id, got[i].Id)
			require.Equal(t, want[i].Annotations, got[i].Annotations)
		}
		require.Equal(t, 1, m.count("StreamContainers"))
	})
}

// A single entry of more than 16 MiB does not, and is an error that says so.
func TestStreamedListWithALargeEntry(t *testing.T) {
	for limit, options := range limits() {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{client: streaming(), server: options})
				n.addContainers(t, 1, 20*mebibyte)
				list, err := n.runtime.ListContainers(t.Context(), nil)
				require.Nil(t, list)
				requireReplyTooLarge(t, err, "ListContainers", "")
				_, err = n.runtime.ListPodSandbox(t.Context(), nil)
				require.NoError(t, err)
			})
		})
	}
}

// A list that breaks is no list, wherever it breaks, and is not tried in another
// way.
func TestStreamedListThatBreaks(t *testing.T) {
	for _, part := range []int{0, 1, 2, 5} {
		synctest.Test(t, func(t *testing.T) {
			broken := true
			m := &meddler{before: func(_ context.Context, at int) error {
				if broken && at == part {
					return status.Error(codes.Internal, "broken")
				}
				return nil
			}}
			n := newNode(t, nodeConfig{client: streaming(), server: m.options()})
			n.addContainers(t, 5, partly)
			list, err := n.runtime.ListContainers(t.Context(), nil)
			require.Nil(t, list, "part %d", part)
			requireCallFailed(t, err, "ListContainers", "")
			require.Equal(t, codes.Internal, status.Code(err))
			require.Equal(t, 1, m.count("StreamContainers"))
			require.LessOrEqual(t, len(n.calls("ListContainers")), 1, "the runtime has listed once at most")
			broken = false
			list, err = n.runtime.ListContainers(t.Context(), nil)
			require.NoError(t, err)
			require.Len(t, list, 6)
			require.Equal(t, 2, m.count("StreamContainers"))
		})
	}
}

// The runtime ends in the middle of a list.
func TestStreamedListOfARuntimeThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meddler{before: func(ctx context.Context, part int) error {
			if part == 3 {
				<-ctx.Done()
			}
			return nil
		}}
		n := newNode(t, nodeConfig{client: streaming(), server: m.options()})
		n.addContainers(t, 5, partly)
		ended := make(chan error, 1)
		go func() {
			list, err := n.runtime.ListContainers(t.Context(), nil)
			if list != nil {
				err = nil
			}
			ended <- err
		}()
		synctest.Wait()
		n.stop()
		requireCut(t, ended)
		m.before = func(context.Context, int) error { return nil }
		n.serve()
		n.recovers(t)
		n.requireHealthy(t)
	})
}

// The deadline is that of the call as a whole, whatever its parts take, and the
// caller can give up between them.
func TestStreamedListThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meddler{before: func(ctx context.Context, part int) error {
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute - time.Second):
			}
			return nil
		}}
		n := newNode(t, nodeConfig{client: streaming(), server: m.options()})
		n.addContainers(t, 5, partly)
		begin := time.Now()
		list, err := n.runtime.ListContainers(t.Context(), nil)
		require.Nil(t, list)
		require.Equal(t, cri.DefaultRequestTimeout, time.Since(begin))
		require.Equal(t, cri.DefaultRequestTimeout, requireCallFailed(t, err, "ListContainers", "").Timeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		ctx, cancel := context.WithCancel(t.Context())
		after(t, time.Minute, cancel)
		begin = time.Now()
		list, err = n.runtime.ListContainers(ctx, nil)
		require.Nil(t, list)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Minute, time.Since(begin))
	})
}

// A runtime without streamed lists is asked for each of them once in a client's
// life, even if it learns them later. Another client asks again.
func TestRuntimeWithoutStreamedLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lacking := true
		m := &meddler{before: func(context.Context, int) error {
			if lacking {
				time.Sleep(time.Second)
				return status.Error(codes.Unimplemented, "unknown method")
			}
			return nil
		}}
		n := newNode(t, nodeConfig{client: streaming(), server: m.options()})
		for stream, plain := range lists() {
			c := callNamed(t, plain)
			want := status.Code(c.make(t.Context(), n))
			for range 2 {
				require.Equal(t, want, status.Code(c.make(t.Context(), n)))
			}
			require.Equal(t, 1, m.count(stream), stream)
			require.Len(t, n.calls(plain), 3, plain)
		}
		lacking = false
		n.requireHealthy(t)
		n.stop()
		n.serve()
		n.recovers(t)
		n.requireHealthy(t)
		require.Equal(t, 1, m.count("StreamContainers"))

		other, err := cri.DialRuntime(t.Context(), n.cfg)
		require.NoError(t, err)
		defer other.Close()
		_, err = other.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, 2, m.count("StreamContainers"))
	})
}

// The plain form gets the time that asking for the other one has left.
func TestFallbackSharesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meddler{before: func(context.Context, int) error {
			time.Sleep(time.Minute)
			return status.Error(codes.Unimplemented, "unknown method")
		}}
		n := newNode(t, nodeConfig{client: streaming(), server: m.options(), script: "ListContainers: hang"})
		begin := time.Now()
		_, err := n.runtime.ListContainers(t.Context(), nil)
		require.Equal(t, cri.DefaultRequestTimeout, time.Since(begin))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Streamed and plain lists have the same in them, filters included.
func TestStreamedListsAreThePlainOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meddler{before: func(context.Context, int) error { return nil }}
		n := newNode(t, nodeConfig{client: streaming(), server: m.options()})
		n.addContainers(t, 3, 10)
		for stream, plain := range lists() {
			err := callNamed(t, plain).make(t.Context(), n)
			if cri.IsUnimplemented(err) {
				require.True(t, strings.HasSuffix(plain, "Metrics"), plain)
				continue
			}
			require.NoError(t, err, plain)
			require.Equal(t, 1, m.count(stream), stream)
			require.Len(t, n.calls(plain), 1, plain)
		}
		sandboxes, err := n.runtime.ListPodSandbox(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, sandboxes, 1)
		stats, err := n.runtime.ListPodSandboxStats(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, stats, 1)
		images, err := n.images.ListImages(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, images, 1)
	})
}
