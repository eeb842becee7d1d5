package allocation_test

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop/allocation"
)

// Two pods with one CPU each, on a node with three, request two CPUs each.
func Example() {
	pod := func(name, cpu string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "app", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
		}}}}
	}
	fits := func(pod *v1.Pod, others []*v1.Pod) error {
		left := int64(3)
		for _, p := range append(others, pod) {
			left -= p.Spec.Containers[0].Resources.Requests.Cpu().Value()
		}
		if left < 0 {
			return errors.New("not enough cpu")
		}
		return nil
	}
	granted := allocation.NewStore()
	for _, name := range []string{"a", "b"} {
		if err := granted.Set(types.UID(name), allocation.ResourcesOf(pod(name, "1"))); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, v := range allocation.Decide(allocation.Input{
		Pods: []*v1.Pod{pod("a", "2"), pod("b", "2")}, Granted: granted.Get, Fit: fits,
	}) {
		if v.Granted {
			fmt.Println(v.Pod.Name, "is granted")
		} else {
			fmt.Println(v.Pod.Name, "waits:", v.Waiting.Message)
		}
	}
	// Output:
	// a is granted
	// b waits: not enough cpu
}
