package fake_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

// ExampleRuntime_Serve uses the client of real runtimes over gRPC and in virtual time: the runtime
// is down for a minute, and the client reconnects. In a real test, t is the argument of the test.
func ExampleRuntime_Serve() {
	t := new(testing.T)
	synctest.Test(t, func(t *testing.T) {
		rt, _ := fake.New(fake.Config{AnyImage: true, CgroupDriver: "systemd"})
		listener := fake.Listen() // outside of a bubble: net.Listen("unix", socket)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- rt.Serve(ctx, listener) }()
		client, err := cri.DialRuntime(ctx, cri.ClientConfig{
			Endpoint: "/fake.sock", // a name for errors
			Dial:     func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
		})
		fmt.Println(client.Name(), err)
		config, err := client.RuntimeConfig(ctx)
		fmt.Println(config.GetLinux().GetCgroupDriver(), err)

		pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "1"}}
		_, _ = client.RunPodSandbox(ctx, pod, "")
		rt.Stop()
		_, err = client.ListPodSandbox(ctx, nil)
		fmt.Println(status.Code(err))
		time.Sleep(time.Minute)
		_ = rt.Start(ctx, fake.LoseNothing)
		time.Sleep(10 * time.Second)
		pods, err := client.ListPodSandbox(ctx, nil)
		fmt.Println(len(pods), err)

		// All goroutines must end before the bubble does.
		_ = client.Close()
		cancel()
		fmt.Println(<-served, rt.Close())
	})
	// Output:
	// fake <nil>
	// SYSTEMD <nil>
	// Unavailable
	// 1 <nil>
	// <nil> <nil>
}
