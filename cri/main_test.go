package cri

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a runtime that answers what a test tells it to.
type script struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	mu      sync.Mutex
	replies map[string]proto.Message // by call name
	errs    map[string]error
	hang    map[string]bool // calls that answer only when their context ends
	seen    []seenCall

	events     func(grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error
	containers func(grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error
}

// seenCall is a call as the server saw it.
type seenCall struct {
	name    string
	request any
	bounded bool
	left    time.Duration // until the deadline
	// metadata is what came with the call.
	metadata metadata.MD
}

func newScript() *script {
	return &script{
		replies: map[string]proto.Message{"Version": goodVersion(), "ImageFsInfo": &runtimeapi.ImageFsInfoResponse{}},
		errs:    map[string]error{},
		hang:    map[string]bool{},
	}
}

func goodVersion() *runtimeapi.VersionResponse {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "scripted", RuntimeVersion: "v1", RuntimeApiVersion: "v1"}
}

func (s *script) reply(call string, reply proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies[call] = reply
}

func (s *script) fail(call string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs[call] = err
}

func (s *script) hanging(call string, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang[call] = hangs
}

// calls are the calls of one name, in order.
func (s *script) calls(name string) []seenCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []seenCall
	for _, c := range s.seen {
		if c.name == name {
			out = append(out, c)
		}
	}
	return out
}

func (s *script) note(ctx context.Context, method string, request any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := seenCall{name: baseName(method), request: request}
	var deadline time.Time
	if deadline, c.bounded = ctx.Deadline(); c.bounded {
		c.left = time.Until(deadline)
	}
	c.metadata, _ = metadata.FromIncomingContext(ctx)
	s.seen = append(s.seen, c)
	return c.name
}

func baseName(method string) string {
	for i := len(method) - 1; i >= 0; i-- {
		if method[i] == '/' {
			return method[i+1:]
		}
	}
	return method
}

func (s *script) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	name := s.note(ctx, info.FullMethod, request)
	s.mu.Lock()
	reply, err, hang := s.replies[name], s.errs[name], s.hang[name]
	s.mu.Unlock()
	switch {
	case hang:
		<-ctx.Done()
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case reply != nil:
		return reply, nil
	default:
		return handler(ctx, request)
	}
}

func (s *script) streamed(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	s.note(stream.Context(), info.FullMethod, nil)
	return handler(srv, stream)
}

func (s *script) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if s.events == nil {
		return s.UnimplementedRuntimeServiceServer.GetContainerEvents(nil, stream)
	}
	return s.events(stream)
}

func (s *script) StreamContainers(_ *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	if s.containers == nil {
		return s.UnimplementedRuntimeServiceServer.StreamContainers(nil, stream)
	}
	return s.containers(stream)
}

// serve serves the script on a listener and returns what ends it: all at once,
// connections included.
func (s *script) serve(listener net.Listener) (stop func()) {
	server := grpc.NewServer(grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.streamed))
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, s)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	return func() {
		server.Stop()
		<-ended
	}
}

// inMemory serves the script in memory and returns a config that reaches it.
func (s *script) inMemory(t *testing.T) ClientConfig {
	listener := memnet.Listen(1 << 20)
	t.Cleanup(s.serve(listener))
	return ClientConfig{
		Endpoint: "/run/scripted.sock",
		Dial:     func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
	}
}

// dialRuntime dials the script's RuntimeService and closes the client at the end.
func dialRuntime(t *testing.T, cfg ClientConfig) *RuntimeClient {
	client, err := DialRuntime(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func dialImages(t *testing.T, cfg ClientConfig) *ImageClient {
	client, err := DialImages(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}
