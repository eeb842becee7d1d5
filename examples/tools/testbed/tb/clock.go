package tb

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Clock is a runtime with an adjustable clock. The setting at the creation of a sandbox or
// container applies to all its times. It is safe for concurrent use.
type Clock struct {
	// Endpoint is the CRI endpoint of this runtime, with the unix:// scheme.
	Endpoint string

	conn *grpc.ClientConn

	mu    sync.Mutex
	ahead time.Duration
	made  map[string]time.Duration // by the id of a sandbox or container
}

// WithClock serves the runtime with an adjustable clock until the test ends. The clock is correct
// before the first Set.
func (rt Runtime) WithClock(t testing.TB) *Clock {
	t.Helper()
	conn, err := grpc.NewClient(rt.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(frames{}), grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "cri.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	c := &Clock{Endpoint: "unix://" + socket, conn: conn, made: map[string]time.Duration{}}
	server := grpc.NewServer(grpc.ForceServerCodec(frames{}), grpc.UnknownServiceHandler(func(_ any, caller grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(caller)
		return c.forward(caller, method)
	}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := errors.Join(<-served, conn.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Set sets the clock ahead, or behind if ahead is negative, for sandboxes and containers created
// afterwards.
func (c *Clock) Set(ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = ahead
}

// frames is a codec that passes encoded messages unchanged.
type frames struct{}

func (frames) Name() string { return "proto" }

func (frames) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (frames) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

// timed are the responses that contain times, or the id of a new sandbox or container.
var timed = map[string]func() proto.Message{
	"RunPodSandbox":      func() proto.Message { return &runtimeapi.RunPodSandboxResponse{} },
	"CreateContainer":    func() proto.Message { return &runtimeapi.CreateContainerResponse{} },
	"ListPodSandbox":     func() proto.Message { return &runtimeapi.ListPodSandboxResponse{} },
	"PodSandboxStatus":   func() proto.Message { return &runtimeapi.PodSandboxStatusResponse{} },
	"ListContainers":     func() proto.Message { return &runtimeapi.ListContainersResponse{} },
	"ContainerStatus":    func() proto.Message { return &runtimeapi.ContainerStatusResponse{} },
	"GetContainerEvents": func() proto.Message { return &runtimeapi.ContainerEventResponse{} },
}

// forward forwards a call with one request and returns its responses to the caller.
func (c *Clock) forward(caller grpc.ServerStream, method string) error {
	ctx, cancel := context.WithCancel(caller.Context())
	defer cancel()
	callee, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	var message []byte
	if err := errors.Join(caller.RecvMsg(&message), callee.SendMsg(&message), callee.CloseSend()); err != nil {
		return err
	}
	for {
		if err := callee.RecvMsg(&message); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if response := timed[method[strings.LastIndex(method, "/")+1:]]; response != nil {
			if message, err = c.retime(message, response()); err != nil {
				return err
			}
		}
		if err := caller.SendMsg(&message); err != nil {
			return err
		}
	}
}

// retime returns a message with the times of this clock. It records new sandboxes and containers.
func (c *Clock) retime(message []byte, m proto.Message) ([]byte, error) {
	if err := proto.Unmarshal(message, m); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch made := m.(type) {
	case *runtimeapi.RunPodSandboxResponse:
		c.made[made.PodSandboxId] = c.ahead
	case *runtimeapi.CreateContainerResponse:
		c.made[made.ContainerId] = c.ahead
	default:
		c.shift(m.ProtoReflect())
	}
	return proto.Marshal(m)
}

// shift adds the clock's offset to all times of the message that are set. The caller holds mu.
func (c *Clock) shift(m protoreflect.Message) {
	ahead := time.Duration(0)
	if id := m.Descriptor().Fields().ByName("id"); id != nil {
		ahead = c.made[m.Get(id).String()]
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() == protoreflect.Int64Kind && strings.HasSuffix(string(f.Name()), "_at"):
			if v.Int() > 0 {
				m.Set(f, protoreflect.ValueOfInt64(v.Int()+int64(ahead)))
			}
		case f.Kind() != protoreflect.MessageKind || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				c.shift(v.List().Get(i).Message())
			}
		default:
			c.shift(v.Message())
		}
		return true
	})
}
