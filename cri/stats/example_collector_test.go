package stats_test

import (
	"context"
	"fmt"
	"log"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/stats"
)

// ExampleCollector prints the usage of pods as measured by the runtime.
func ExampleCollector() {
	ctx := context.Background()
	runtime := must(fake.New(fake.Config{AnyImage: true})) // or a cri.RuntimeClient
	defer runtime.Close()
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"}}
	sandbox := must(runtime.RunPodSandbox(ctx, pod, ""))
	id := must(runtime.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"},
	}, pod))
	_ = must(0, runtime.StartContainer(ctx, id))

	collector := must(stats.NewCollector(stats.CollectorConfig{Owner: cri.Owner{Unlabelled: true}, Runtime: runtime}))
	pods, _, err := collector.Collect(ctx, stats.CollectOptions{Storage: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range pods {
		for _, c := range p.Containers {
			fmt.Printf("%s/%s: %d bytes of memory, %d on disk\n", p.Name, c.Name, *c.Usage.Memory.WorkingSet, *c.Writable.Used)
		}
	}
	// Output:
	// web/app: 8388608 bytes of memory, 16384 on disk
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
