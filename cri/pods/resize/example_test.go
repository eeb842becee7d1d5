package resize_test

import (
	"fmt"
	"log/slog"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/cri/pods/resize"
)

// What was told to the runtime is known to the next agent.
func ExampleNewFolder() {
	dir, err := os.MkdirTemp("", "resources")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")},
	}}}}}
	for range 2 {
		store, err := resize.NewFolder(resize.FolderConfig{Dir: dir, Logger: slog.Default()})
		if err != nil {
			fmt.Println(err)
			return
		}
		record, err := resize.Load(store, "1")
		if err != nil {
			fmt.Println(err)
			return
		}
		told := record.Actuated().Containers["app"]
		fmt.Println("told:", told.Requests.Cpu())
		if err := record.NoteContainer(pod, &pod.Spec.Containers[0]); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// told: 0
	// told: 100m
}
