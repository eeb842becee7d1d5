package stats_test

import (
	"context"
	"fmt"
	"log"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/stats"
)

// What the pods of a runtime use, by the runtime's word.
func ExampleCollector() {
	ctx := context.Background()
	runtime, err := fake.New(fake.Config{AnyImage: true}) // or a cri.RuntimeClient
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close()
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"}}
	sandbox, err := runtime.RunPodSandbox(ctx, pod, "")
	if err != nil {
		log.Fatal(err)
	}
	id, err := runtime.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"},
	}, pod)
	if err != nil {
		log.Fatal(err)
	}
	if err := runtime.StartContainer(ctx, id); err != nil {
		log.Fatal(err)
	}

	collector, err := stats.NewCollector(stats.CollectorConfig{Runtime: runtime})
	if err != nil {
		log.Fatal(err)
	}
	pods, _, err := collector.Collect(ctx, stats.Wanted{Storage: true})
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
