package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/examples/testbed/tb"
)

// frames passes messages on as they are.
type frames struct{}

func (frames) Name() string { return "proto" }

func (frames) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (frames) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

// responses are those that have times in them.
var responses = map[string]func() proto.Message{
	"ListPodSandbox":   func() proto.Message { return &runtimeapi.ListPodSandboxResponse{} },
	"PodSandboxStatus": func() proto.Message { return &runtimeapi.PodSandboxStatusResponse{} },
	"ListContainers":   func() proto.Message { return &runtimeapi.ListContainersResponse{} },
	"ContainerStatus":  func() proto.Message { return &runtimeapi.ContainerStatusResponse{} },
}

// shiftedRuntime serves a runtime whose clock is another one, until the test ends.
func shiftedRuntime(t *testing.T, rt tb.Runtime, ahead time.Duration) (endpoint string) {
	t.Helper()
	conn, err := grpc.NewClient(rt.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(frames{}), grpc.MaxCallRecvMsgSize(16<<20)))
	require.NoError(t, err)
	socket := filepath.Join(t.TempDir(), "cri.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := grpc.NewServer(grpc.ForceServerCodec(frames{}), grpc.UnknownServiceHandler(func(_ any, caller grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(caller)
		return forward(caller, conn, method, ahead)
	}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, errors.Join(<-served, conn.Close()))
	})
	return "unix://" + socket
}

// forward makes a call with one request for a caller.
func forward(caller grpc.ServerStream, conn *grpc.ClientConn, method string, ahead time.Duration) error {
	ctx, cancel := context.WithCancel(caller.Context())
	defer cancel()
	callee, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
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
		if shifted := responses[method[strings.LastIndex(method, "/")+1:]]; shifted != nil {
			m := shifted()
			if err := proto.Unmarshal(message, m); err != nil {
				return err
			}
			shift(m.ProtoReflect(), ahead)
			if message, err = proto.Marshal(m); err != nil {
				return err
			}
		}
		if err := caller.SendMsg(&message); err != nil {
			return err
		}
	}
}

// shift adds to all times in a message that are set.
func shift(m protoreflect.Message, ahead time.Duration) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() == protoreflect.Int64Kind && strings.HasSuffix(string(f.Name()), "_at"):
			if v.Int() > 0 {
				m.Set(f, protoreflect.ValueOfInt64(v.Int()+int64(ahead)))
			}
		case f.Kind() != protoreflect.MessageKind || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				shift(v.List().Get(i).Message(), ahead)
			}
		default:
			shift(v.Message(), ahead)
		}
		return true
	})
}

// A runtime whose clock is an hour ahead or behind changes nothing that matters: pods
// become ready, what crashes is held back, for as long as it should be, a pod with a
// deadline of half an hour is not over, nothing is collected that is needed, and a kubelet
// that is restarted leaves alone what runs.
func TestRuntimeWithAnotherClock(t *testing.T) {
	images := tb.Images(t)
	build.path(t)
	for _, rt := range tb.Runtimes(t) {
		t.Run(rt.Name, func(t *testing.T) {
			t.Parallel()
			for _, ahead := range []time.Duration{-time.Hour, time.Hour} { // two kubelets would stop each other's pods
				t.Run(ahead.String(), func(t *testing.T) { anotherClock(t, rt, images, ahead) })
			}
		})
	}
}

func anotherClock(t *testing.T, rt tb.Runtime, images tb.ImageNames, ahead time.Duration) {
	s := newScene(t, rt, images, options{endpoint: shiftedRuntime(t, rt, ahead)})
	s.start(t)
	untouched := s.bystander(t)
	limited := newPod("limited", shell("main", s.images.Busybox, untilTerm))
	limited.Spec.ActiveDeadlineSeconds = new(int64(1800))
	limited.Spec.Containers[0].ReadinessProbe = execProbe("true")
	limited.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds = 2
	s.place(t, "limited.yaml", limited)
	before := s.becomesReady(t, "limited")
	s.place(t, "crash.yaml", newPod("crash", testprog(s.images.Testprog, "exit", "3")))
	s.crashLooping(t, "crash", 1)
	s.crashLooping(t, "crash", 2)
	s.kill(t)
	s.start(t)
	s.running(t, "limited")
	hold(t, 5*time.Second, "it goes on", func() error {
		_, c, err := s.container("crash", "main")
		if err == nil && c.RestartCount > 3 {
			err = fmt.Errorf("%d restarts", c.RestartCount)
		}
		return errors.Join(err, s.untouched(before, "limited"))
	})
	untouched()
}
