package fake_test

import (
	"context"
	"fmt"
	"log"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// Example runs a container until it exits and reads its exit code.
func Example() {
	ctx := context.Background()
	rt := must(fake.New(fake.Config{
		AnyImage: true,
		Programs: fake.ByCommand(map[string]fake.Program{
			"fail": func(_ context.Context, p *fake.Process) int {
				fmt.Printf("%s runs %q\n", p.Container.Name, p.Args)
				return 3
			},
		}, nil),
	}))
	defer rt.Close()

	pod := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"},
	}
	sandbox := must(rt.RunPodSandbox(ctx, pod, ""))
	id := must(rt.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		Image:    &runtimeapi.ImageSpec{Image: "busybox"},
		Command:  []string{"fail", "now"},
	}, pod))
	_ = must(0, rt.StartContainer(ctx, id))
	for range time.Tick(time.Millisecond) {
		if s := must(rt.ContainerStatus(ctx, id, false)).Status; s.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			fmt.Println(s.State, s.ExitCode, s.Reason)
			break
		}
	}
	// Output:
	// app runs ["fail" "now"]
	// CONTAINER_EXITED 3 Error
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
