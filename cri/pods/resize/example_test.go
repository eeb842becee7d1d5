package resize_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/cri/pods/resize"
)

// ExampleLoad shows that the next agent finds the recorded resources.
func ExampleLoad() {
	store := resize.NewMemory()
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")},
	}}}}}
	for range 2 {
		record, err := resize.Load(store, "1")
		if err != nil {
			fmt.Println(err)
			return
		}
		sent := record.Actuated().Containers["app"]
		fmt.Println("sent:", sent.Requests.Cpu())
		if err := record.NoteContainer(pod, &pod.Spec.Containers[0]); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// sent: 0
	// sent: 100m
}
