package fake_test

import (
	"context"
	"fmt"
	"log"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// A pod's container exits, and the exit is observed.
func Example() {
	ctx := context.Background()
	rt, err := fake.New(fake.Config{
		AnyImage: true,
		Programs: fake.ByCommand(map[string]fake.Program{
			"fail": func(_ context.Context, p *fake.Process) int {
				fmt.Printf("%s runs %q\n", p.Container.Name, p.Args)
				return 3
			},
		}, nil),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	pod := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"},
	}
	sandbox, err := rt.RunPodSandbox(ctx, pod, "")
	if err != nil {
		log.Fatal(err)
	}
	id, err := rt.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		Image:    &runtimeapi.ImageSpec{Image: "busybox"},
		Command:  []string{"fail", "now"},
	}, pod)
	if err != nil {
		log.Fatal(err)
	}

	if err := rt.StartContainer(ctx, id); err != nil {
		log.Fatal(err)
	}
	for range time.Tick(time.Millisecond) {
		response, err := rt.ContainerStatus(ctx, id, false)
		if err != nil {
			log.Fatal(err)
		}
		if s := response.Status; s.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			fmt.Println(s.State, s.ExitCode, s.Reason)
			break
		}
	}
	// Output:
	// app runs ["fail" "now"]
	// CONTAINER_EXITED 3 Error
}
