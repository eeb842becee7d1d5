package grpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	probegrpc "github.com/podwright/podwright/probe/grpc"
)

// A prober works without a Manager. DialContext connects it to its pod, a virtual machine without
// an address on this host.
func Example() {
	listener := bufconn.Listen(1 << 16)
	services := health.NewServer()
	services.SetServingStatus("cart", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, services)
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()

	prober, err := probegrpc.New(probegrpc.Config{
		Version:     "1.35",
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, service := range []string{"", "cart", "unknown"} {
		result, err := prober.Probe(context.Background(), probe.Target{
			PodIP: "192.0.2.7", Container: &v1.Container{Name: "app"}, Timeout: 10 * time.Second,
			Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 9000, Service: &service}}},
		})
		fmt.Println(result.Verdict, result.Output, err)
	}
	server.Stop()
	<-done
	// Output:
	// Success service healthy <nil>
	// Failure service unhealthy (responded with "NOT_SERVING") <nil>
	// Failure error: health rpc probe failed: rpc error: code = NotFound desc = unknown service <nil>
}
