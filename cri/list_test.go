package cri

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const mebibyte = 1 << 20

// bulk returns n containers of at least size bytes each.
func bulk(n, size int) []*runtimeapi.Container {
	var out []*runtimeapi.Container
	for i := range n {
		out = append(out, &runtimeapi.Container{Id: fmt.Sprint(i), Annotations: map[string]string{"a": strings.Repeat("x", size)}})
	}
	return out
}

// C39: a list that exceeds the limit fails with ErrReplyTooLarge and does not affect calls about
// single containers.
func TestTooLargeList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.reply("ListContainers", &runtimeapi.ListContainersResponse{Containers: bulk(15, mebibyte)})
		items, err := n.runtime.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, items, 15)

		s.reply("ListContainers", &runtimeapi.ListContainersResponse{Containers: bulk(17, mebibyte)})
		items, err = n.runtime.ListContainers(t.Context(), nil)
		require.Nil(t, items)
		requireCallError(t, err, "ListContainers", "")
		require.ErrorIs(t, err, ErrReplyTooLarge)
		require.NotErrorIs(t, err, ErrRequestTooLarge)
		require.ErrorContains(t, err, "reply exceeds 16 MiB")
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.NoError(t, n.runtime.RemoveContainer(t.Context(), "c"))
	})
}

// The limit is exactly 16 MiB, even if the runtime has no limit for sending.
func TestLargestReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGoodScript()
		s.options = append(s.options, grpc.MaxSendMsgSize(math.MaxInt32))
		client := dialRuntime(t, s.inMemory(t))
		sized := func(size int) {
			reply := goodContainer()
			reply.Status.Message = strings.Repeat("x", size)
			reply.Status.Message = strings.Repeat("x", size-(proto.Size(reply)-size))
			s.reply("ContainerStatus", reply)
		}
		sized(16 * mebibyte)
		reply, err := client.ContainerStatus(t.Context(), "c", false)
		require.NoError(t, err)
		require.Equal(t, 16*mebibyte, proto.Size(reply))
		sized(16*mebibyte + 1)
		_, err = client.ContainerStatus(t.Context(), "c", false)
		require.ErrorIs(t, err, ErrReplyTooLarge)
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
	})
}

// A message that the runtime refuses to receive fails with ErrRequestTooLarge, independent of both
// limits.
func TestTooLargeRequest(t *testing.T) {
	for size, limit := range map[int]int{5 * mebibyte: 4 * mebibyte, 16 * mebibyte: 16 * mebibyte} {
		synctest.Test(t, func(t *testing.T) {
			s := newGoodScript()
			s.options = append(s.options, grpc.MaxRecvMsgSize(limit))
			client := dialRuntime(t, s.inMemory(t))
			large := &runtimeapi.ContainerConfig{Labels: map[string]string{"text": strings.Repeat("x", size)}}
			id, err := client.CreateContainer(t.Context(), "s", large, nil)
			require.Empty(t, id)
			requireCallError(t, err, "CreateContainer", "s")
			require.ErrorIs(t, err, ErrRequestTooLarge)
			require.NotErrorIs(t, err, ErrReplyTooLarge)
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
			require.ErrorContains(t, err, "request exceeds the runtime's size limit")
			require.Empty(t, s.calls("CreateContainer"), "the runtime has not seen it")
			_, err = client.CreateContainer(t.Context(), "s", nil, nil)
			require.NoError(t, err)
		})
	}
}

// streamParts makes a streaming call send parts and return err.
func (s *script) streamParts(call string, err error, parts ...proto.Message) {
	s.stream(call, func(stream grpc.ServerStream) error {
		for _, part := range parts {
			if err := stream.SendMsg(part); err != nil {
				return err
			}
		}
		return err
	})
}

// inParts splits a list into replies with one container each.
func inParts(containers []*runtimeapi.Container) (parts []proto.Message) {
	for _, c := range containers {
		parts = append(parts, &runtimeapi.StreamContainersResponse{Containers: []*runtimeapi.Container{c}})
	}
	return parts
}

func streamingClients(t *testing.T) (*script, clients) {
	s := newGoodScript()
	cfg := s.inMemory(t)
	cfg.StreamLists = true
	return s, dialBoth(t, cfg)
}

// C39: the streaming form works for lists above the limit, unless a single entry exceeds it.
func TestStreamedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := streamingClients(t)
		s.streamParts("StreamContainers", nil, inParts(bulk(17, mebibyte))...)
		items, err := n.runtime.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, items, 17)
		require.Equal(t, "16", items[16].Id)
		require.Empty(t, s.calls("ListContainers"))
		require.Equal(t, defaultRequestTimeout, s.last("StreamContainers").left)

		s.streamParts("StreamContainers", nil, inParts(bulk(1, 17*mebibyte))...)
		items, err = n.runtime.ListContainers(t.Context(), nil)
		require.Nil(t, items)
		requireCallError(t, err, "ListContainers", "")
		require.ErrorIs(t, err, ErrReplyTooLarge)
	})
}

// A stream without end fails with an error that contains the limit, and gives no partial list.
func TestEndlessStreamedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := streamingClients(t)
		s.streamParts("StreamContainers", nil, inParts(bulk(33, mebibyte))...)
		items, err := n.runtime.ListContainers(t.Context(), nil)
		require.Nil(t, items)
		requireCallError(t, err, "ListContainers", "")
		require.ErrorContains(t, err, "list larger than the limit of 33554432 bytes")
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
	})
}

// A list is complete up to 16 MiB and 40,000 entries. Above them it is an error with the limit.
func TestManyEntries(t *testing.T) {
	for _, c := range []struct {
		entries, size int
		err           string
	}{
		{40_000, 200, ""},
		{40_001, 0, "reply exceeds 40000 entries"},
		{60_000, 200, "reply exceeds 40000 entries"},
		{60_000, 300, "reply exceeds 16 MiB"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, n := bothClients(t)
			s.reply("ListContainers", &runtimeapi.ListContainersResponse{Containers: bulk(c.entries, c.size)})
			items, err := n.runtime.ListContainers(t.Context(), nil)
			if c.err == "" {
				require.NoError(t, err)
				require.Len(t, items, c.entries)
				return
			}
			require.ErrorIs(t, err, ErrReplyTooLarge)
			require.ErrorContains(t, err, c.err)
			require.Nil(t, items)
		})
	}
}

// A stream has at most 40,000 entries, too.
func TestManyStreamedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := streamingClients(t)
		part := &runtimeapi.StreamContainersResponse{Containers: bulk(20_001, 0)}
		s.streamParts("StreamContainers", nil, part, part)
		items, err := n.runtime.ListContainers(t.Context(), nil)
		require.Nil(t, items)
		require.ErrorIs(t, err, ErrReplyTooLarge)
		require.ErrorContains(t, err, "reply exceeds 40000 entries")
	})
}

func TestBrokenStreamGivesNoHalfList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := streamingClients(t)
		for _, parts := range []int{0, 1, 4} {
			s.streamParts("StreamContainers", status.Error(codes.Internal, "broken"), inParts(bulk(parts, 1))...)
			items, err := n.runtime.ListContainers(t.Context(), nil)
			require.Nil(t, items)
			requireCallError(t, err, "ListContainers", "")
			require.Equal(t, codes.Internal, status.Code(err))
			require.Empty(t, s.calls("ListContainers"), "no second try by the other form")
		}
	})
}

// The deadline applies to the whole call: neither a stream with timely parts nor the search for a
// streaming form prolongs it. The caller can cancel between parts.
func TestStreamedListThatStalls(t *testing.T) {
	for name, stall := range map[string]func(grpc.ServerStream) error{
		"parts": func(stream grpc.ServerStream) error {
			for stream.Context().Err() == nil {
				time.Sleep(50 * time.Second)
				_ = stream.SendMsg(&runtimeapi.StreamContainersResponse{})
			}
			return nil
		},
		"fallback": func(grpc.ServerStream) error {
			time.Sleep(time.Minute)
			return status.Error(codes.Unimplemented, "unknown method")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, n := streamingClients(t)
				s.stream("StreamContainers", stall)
				s.hanging("ListContainers", true)
				begin := time.Now()
				items, err := n.runtime.ListContainers(t.Context(), nil)
				require.Nil(t, items)
				require.Equal(t, defaultRequestTimeout, time.Since(begin))
				require.Equal(t, defaultRequestTimeout, requireCallError(t, err, "ListContainers", "").Timeout)
				require.ErrorIs(t, err, context.DeadlineExceeded)

				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(80*time.Second, cancel)
				begin = time.Now()
				_, err = n.runtime.ListContainers(ctx, nil)
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, 80*time.Second, time.Since(begin))
				time.Sleep(time.Minute) // until the server's handlers have returned
			})
		})
	}
}

// streamedLists has one part for each list with a streaming form, by call.
var streamedLists = map[string]struct {
	streaming string
	part      proto.Message
}{
	"ListPodSandbox":        {"StreamPodSandboxes", &runtimeapi.StreamPodSandboxesResponse{PodSandboxes: []*runtimeapi.PodSandbox{{}}}},
	"ListContainers":        {"StreamContainers", &runtimeapi.StreamContainersResponse{Containers: []*runtimeapi.Container{{}}}},
	"ListContainerStats":    {"StreamContainerStats", &runtimeapi.StreamContainerStatsResponse{ContainerStats: []*runtimeapi.ContainerStats{{}}}},
	"ListPodSandboxStats":   {"StreamPodSandboxStats", &runtimeapi.StreamPodSandboxStatsResponse{PodSandboxStats: []*runtimeapi.PodSandboxStats{{}}}},
	"ListPodSandboxMetrics": {"StreamPodSandboxMetrics", &runtimeapi.StreamPodSandboxMetricsResponse{PodSandboxMetrics: []*runtimeapi.PodSandboxMetrics{{}}}},
	"ListImages":            {"StreamImages", &runtimeapi.StreamImagesResponse{Images: []*runtimeapi.Image{{}}}},
}

// Each list has a streaming form. A client tries each form once on a runtime without them, even if
// the runtime gains them later. A new client tries again.
func TestStreamedListsFallBack(t *testing.T) {
	for name, streams := range map[string]bool{"streams": true, "has plain lists only": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newGoodScript()
				cfg := s.inMemory(t)
				cfg.StreamLists = true
				var failed []CallInfo
				cfg.OnCall = func(i CallInfo) {
					if i.Err != nil {
						failed = append(failed, i)
					}
				}
				n := dialBoth(t, cfg)
				tested := 0
				for _, c := range everyCall {
					list, ok := streamedLists[c.name]
					if !ok {
						continue
					}
					tested++
					for round := range 3 {
						if streams || round > 0 {
							s.streamParts(list.streaming, nil, list.part, list.part)
						}
						out, err := n.do(t.Context(), c)
						require.NoError(t, err, c.name)
						require.Equal(t, map[bool]int{true: 2, false: 1}[streams], out[0].Len(), c.name)
					}
					streamed, plain := 3, 0
					if !streams {
						streamed, plain = 1, 3
					}
					require.Len(t, s.calls(list.streaming), streamed, list.streaming)
					require.Len(t, s.calls(c.name), plain, c.name)
				}
				require.Len(t, streamedLists, tested)
				require.Empty(t, failed, "a fallback is no failure")
				items, err := dialRuntime(t, cfg).ListContainers(t.Context(), nil)
				require.NoError(t, err)
				require.Len(t, items, 2)
			})
		})
	}
}

// An invalid entry of a list does not hide the rest.
func TestOddEntriesOfLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.reply("ListContainers", &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: "c"}, {}, nil}})
		items, err := n.runtime.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, items, 3)
		require.Equal(t, "c", items[0].Id)
		require.NotNil(t, items[2])
	})
}
