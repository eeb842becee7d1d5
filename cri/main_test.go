package cri

import (
	"context"
	"net"
	"path"
	"sync"
	"syscall"
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

// script is a runtime with scripted replies, errors and hangs.
type script struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
	options []grpc.ServerOption
	forgets bool // records no calls

	mu       sync.Mutex
	replies  map[string]proto.Message // by call name
	errs     map[string]error
	hang     map[string]bool // calls that block until their context ends
	streams  map[string]func(grpc.ServerStream) error
	seen     []*seenCall
	listener *memnet.Listener // nil while the runtime is away
	stop     func()           // stops the in-memory server
}

type seenCall struct {
	name     string
	request  any
	bounded  bool
	left     time.Duration // until the deadline
	metadata metadata.MD
	err      error // set when a hanging call has ended
}

func newScript() *script {
	return &script{
		replies: map[string]proto.Message{"Version": goodVersion(), "ImageFsInfo": &runtimeapi.ImageFsInfoResponse{}},
		errs:    map[string]error{},
		hang:    map[string]bool{},
		streams: map[string]func(grpc.ServerStream) error{},
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

func (s *script) stream(call string, handle func(grpc.ServerStream) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[call] = handle
}

// calls returns the calls with this name, in order.
func (s *script) calls(name string) []*seenCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*seenCall
	for _, c := range s.seen {
		if c.name == name {
			out = append(out, c)
		}
	}
	return out
}

func (s *script) last(name string) *seenCall {
	calls := s.calls(name)
	return calls[len(calls)-1]
}

func (s *script) note(ctx context.Context, method string, request any) *seenCall {
	c := &seenCall{name: path.Base(method), request: request}
	var deadline time.Time
	if deadline, c.bounded = ctx.Deadline(); c.bounded {
		c.left = time.Until(deadline)
	}
	c.metadata, _ = metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.forgets {
		s.seen = append(s.seen, c)
	}
	return c
}

func (s *script) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	c := s.note(ctx, info.FullMethod, request)
	s.mu.Lock()
	reply, err, hang := s.replies[c.name], s.errs[c.name], s.hang[c.name]
	s.mu.Unlock()
	switch {
	case hang:
		<-ctx.Done()
		c.err = ctx.Err()
		return nil, c.err
	case err != nil:
		return nil, err
	case reply != nil:
		return reply, nil
	default:
		return handler(ctx, request)
	}
}

func (s *script) streamed(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := s.note(stream.Context(), info.FullMethod, nil)
	unimplemented := handler(srv, stream) // receives the request
	s.mu.Lock()
	handle := s.streams[c.name]
	s.mu.Unlock()
	if handle == nil {
		return unimplemented
	}
	return handle(stream)
}

// serve serves the script on a listener. stop stops the server and closes its connections.
func (s *script) serve(listener net.Listener) (stop func()) {
	server := grpc.NewServer(append(s.options, grpc.ChainUnaryInterceptor(s.unary), grpc.StreamInterceptor(s.streamed))...)
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	return func() {
		server.Stop()
		serving.Wait()
	}
}

// start serves the script in memory until s.stop is called.
func (s *script) start() {
	listener := memnet.Listen(1 << 20)
	stop := s.serve(listener)
	s.listen(listener)
	s.stop = func() {
		s.listen(nil)
		stop()
	}
}

func (s *script) listen(listener *memnet.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = listener
}

func (s *script) dial(ctx context.Context, _ string) (net.Conn, error) {
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if listener == nil {
		return nil, syscall.ECONNREFUSED
	}
	return listener.DialContext(ctx)
}

// inMemory serves the script in memory and returns a config for clients.
func (s *script) inMemory(t *testing.T) ClientConfig {
	s.start()
	t.Cleanup(func() { s.stop() })
	return ClientConfig{Endpoint: "/run/scripted.sock", Dial: s.dial}
}

// dialRuntime returns a client of the RuntimeService that is closed when the test ends.
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
