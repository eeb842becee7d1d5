package cri_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

const (
	mebibyte = 1 << 20
	// largest is the largest message that the client receives.
	largest = 16 * mebibyte
)

// addContainers creates containers in the fake, each with an annotation of a size.
func (n *node) addContainers(t *testing.T, count, size int) {
	text := strings.Repeat("x", size)
	for i := range count {
		config := containerConfig(fmt.Sprint("large-", i))
		config.Annotations = map[string]string{"text": text}
		_, err := n.fake.CreateContainer(t.Context(), n.sandbox, config, n.pod)
		require.NoError(t, err)
	}
}

// limits are servers whose own limit is that of containerd, or none, so that the
// client's counts.
func limits() map[string][]grpc.ServerOption {
	all := map[string][]grpc.ServerOption{
		"the runtime's limit": nil,
		"the client's limit":  {grpc.MaxSendMsgSize(math.MaxInt32)},
	}
	if testing.Short() {
		delete(all, "the client's limit")
	}
	return all
}

func requireReplyTooLarge(t *testing.T, err error, call, object string) {
	t.Helper()
	requireCallFailed(t, err, call, object)
	require.ErrorIs(t, err, cri.ErrReplyTooLarge)
	require.NotErrorIs(t, err, cri.ErrRequestTooLarge)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "reply exceeds 16 MiB")
}

// A list of more than 16 MiB fails and says so, whether few entries are large or
// many are of some size. All that is smaller goes on.
func TestListsOfTwentyMebibytes(t *testing.T) {
	for limit, options := range limits() {
		for kind, c := range map[string]struct{ count, size int }{"large entries": {20, mebibyte}, "many entries": {2500, 8 << 10}} {
			t.Run(limit+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, nodeConfig{server: options})
					n.addContainers(t, c.count, c.size)
					for range 2 {
						list, err := n.runtime.ListContainers(t.Context(), nil)
						require.Nil(t, list)
						requireReplyTooLarge(t, err, "ListContainers", "")

						list, err = n.runtime.ListContainers(t.Context(), &runtimeapi.ContainerFilter{Id: n.container})
						require.NoError(t, err)
						require.Len(t, list, 1)
						_, err = n.runtime.ListPodSandbox(t.Context(), nil)
						require.NoError(t, err)
						reply, err := n.runtime.ContainerStatus(t.Context(), n.container, false)
						require.NoError(t, err)
						require.Equal(t, n.container, reply.Status.Id)
					}
				})
			})
		}
	}
}

// Sixteen mebibytes pass, and not a byte more.
func TestLargestReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newForger()
		n := newNode(t, nodeConfig{server: append(f.options(), grpc.MaxSendMsgSize(math.MaxInt32))})
		sized := func(size int) {
			f.forge("ContainerStatus", func(m proto.Message) proto.Message {
				reply := m.(*runtimeapi.ContainerStatusResponse)
				reply.Status.Message = strings.Repeat("x", size)
				reply.Status.Message = strings.Repeat("x", size-(proto.Size(m)-size))
				return m
			})
		}
		sized(largest)
		reply, err := n.runtime.ContainerStatus(t.Context(), n.container, false)
		require.NoError(t, err)
		require.Equal(t, largest, proto.Size(reply))
		sized(largest + 1)
		_, err = n.runtime.ContainerStatus(t.Context(), n.container, false)
		requireReplyTooLarge(t, err, "ContainerStatus", n.container)
	})
}

// What the runtime refuses to receive is the request's fault, whatever its limit.
func TestRequestOfTwentyMebibytes(t *testing.T) {
	for name, c := range map[string]struct {
		size    int
		options []grpc.ServerOption
	}{
		"a limit of 16 MiB":        {20 * mebibyte, nil},
		"gRPC's limit of 4 MiB":    {5 * mebibyte, []grpc.ServerOption{grpc.MaxRecvMsgSize(4 * mebibyte)}},
		"the client's limit, by 1": {largest, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{server: c.options})
				config := containerConfig("second")
				config.Labels = map[string]string{"text": strings.Repeat("x", c.size)}
				id, err := n.runtime.CreateContainer(t.Context(), n.sandbox, config, n.pod)
				require.Empty(t, id)
				requireCallFailed(t, err, "CreateContainer", n.sandbox)
				require.ErrorIs(t, err, cri.ErrRequestTooLarge)
				require.NotErrorIs(t, err, cri.ErrReplyTooLarge)
				require.Equal(t, codes.ResourceExhausted, status.Code(err))
				require.ErrorContains(t, err, "request exceeds what the runtime receives")

				require.Empty(t, n.calls("CreateContainer"), "the runtime has not seen it")
				require.NoError(t, callNamed(t, "CreateContainer").make(t.Context(), n))
			})
		})
	}
}

// A command that writes 20 MiB.
func TestExecSyncOfTwentyMebibytes(t *testing.T) {
	for limit, options := range limits() {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				size := 20 * mebibyte
				n := newNode(t, nodeConfig{server: options, fake: fake.Config{
					Exec: fake.Always(func(_ context.Context, p *fake.Process) int {
						_, _ = io.WriteString(p.Stdout, strings.Repeat("x", size))
						return 3
					}),
				}})
				stdout, stderr, err := n.runtime.ExecSync(t.Context(), n.container, []string{"cat"}, 0)
				require.Empty(t, stdout)
				require.Empty(t, stderr)
				requireReplyTooLarge(t, err, "ExecSync", n.container)
				size = 15 * mebibyte
				stdout, _, err = n.runtime.ExecSync(t.Context(), n.container, []string{"cat"}, 0)
				var exit *cri.ExitError
				require.ErrorAs(t, err, &exit)
				require.Len(t, stdout, size)
				require.Len(t, exit.Stdout, size)
			})
		})
	}
}

// An event carries the status of its pod and can be as large as a list. It breaks
// the stream, with the reason, and a stream opened later works.
func TestEventOfTwentyMebibytes(t *testing.T) {
	for limit, options := range limits() {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{server: options})
				n.addContainers(t, 20, mebibyte)
				s := n.subscribe(t.Context(), nil)
				require.NoError(t, n.fake.StopContainer(t.Context(), n.container, 0))
				err := <-s.ended
				require.Empty(t, s.events())
				requireReplyTooLarge(t, err, "GetContainerEvents", "")
				n.requireSandboxEvent(t)
			})
		})
	}
}
