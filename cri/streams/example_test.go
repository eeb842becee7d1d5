package streams_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/streams"
)

// Run a command in a container of the fake, over in-memory connections.
func Example() {
	listener := fake.Listen()
	server := must(streams.NewServer(streams.Config{Listener: listener}))
	rt := must(fake.New(fake.Config{AnyImage: true, Streams: server, Exec: fake.ByCommand(map[string]fake.Program{"cat": cat}, nil)}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, rt) }()

	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"}}
	sandbox, _ := rt.RunPodSandbox(ctx, pod, "")
	container, _ := rt.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"},
	}, pod)
	_ = rt.StartContainer(ctx, container)

	client := &streams.Client{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) }}
	response := must(rt.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: container, Cmd: []string{"cat"}, Stdin: true, Stdout: true}))
	code, err := client.Exec(ctx, response.Url, streams.Session{Stdin: strings.NewReader("hello\n"), Stdout: os.Stdout})
	fmt.Println(code, err)
	cancel()
	fmt.Println(<-ended, rt.Close())
	// Output:
	// hello
	// 0 <nil>
	// <nil> <nil>
}
