package cri_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// tiny is a runtime with one sandbox that refuses new ones.
type tiny struct {
	runtimeapi.UnimplementedRuntimeServiceServer
}

func (tiny) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "tiny", RuntimeVersion: "1.0", RuntimeApiVersion: "v1"}, nil
}

func (tiny) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{Id: "5f2a", State: runtimeapi.PodSandboxState_SANDBOX_READY}}}, nil
}

func (tiny) RunPodSandbox(context.Context, *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	return nil, status.Error(codes.ResourceExhausted, "no room")
}

// serveTiny serves a runtime in memory and returns a dialer and a stop function.
func serveTiny() (dial func(context.Context, string) (net.Conn, error), stop func()) {
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, tiny{})
	go func() { _ = server.Serve(listener) }()
	return func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }, server.Stop
}

func Example() {
	dial, stop := serveTiny()
	defer stop()
	ctx := context.Background()
	runtime, err := cri.DialRuntime(ctx, cri.ClientConfig{Endpoint: "/run/tiny.sock", Dial: dial, Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close()

	sandboxes, err := runtime.ListPodSandbox(ctx, nil)
	fmt.Println(runtime.Name(), len(sandboxes), sandboxes[0].State, err)

	_, err = runtime.RunPodSandbox(ctx, &runtimeapi.PodSandboxConfig{}, "")
	fmt.Println(err)
	fmt.Println(status.Code(err))

	err = runtime.GetContainerEvents(ctx, func(*runtimeapi.ContainerEventResponse) {})
	fmt.Println("has no events:", cri.IsUnimplemented(err))
	// Output:
	// tiny 1 SANDBOX_READY <nil>
	// runtime unix:///run/tiny.sock: RunPodSandbox: ResourceExhausted: no room
	// ResourceExhausted
	// has no events: true
}

func ExampleDialRuntime_absent() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	_, err := cri.DialRuntime(context.Background(), cri.ClientConfig{Endpoint: filepath.Join(dir, "x.sock")})
	var call *cri.CallError
	if errors.As(err, &call) {
		fmt.Println(call.Service, call.Call, errors.Is(err, os.ErrNotExist))
	}
	// Output: runtime Version true
}

func ExampleHealthMonitor() {
	dial, stop := serveTiny()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	runtime, err := cri.DialRuntime(ctx, cri.ClientConfig{Endpoint: "/run/tiny.sock", Dial: dial})
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close()
	monitor, err := cri.NewHealthMonitor(cri.HealthConfig{
		Runtime: runtime,
		Period:  time.Second, Timeout: 2 * time.Second, DownAfter: 10 * time.Second,
		OnChange: func(h cri.Health) {
			fmt.Println(h.RuntimeReady.Readiness, "-", h.Err)
			cancel()
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(monitor.Run(ctx))
	// Output:
	// unknown - runtime unix:///run/tiny.sock: Status: Unimplemented: method Status not implemented
	// <nil>
}
