package admission_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
)

// A node with one CPU admits pods while they fit, and rejects pods by a custom rule.
func ExampleFit() {
	pod := func(name, cpu string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "app", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
		}}}}
	}
	fit, err := admission.New(admission.Config{Allocatable: func() v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourcePods: resource.MustParse("110")}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	namespaces := syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		if pod.Namespace == "forbidden" {
			return syncloop.Reject("ForbiddenNamespace", "pods of %s do not run here", pod.Namespace)
		}
		return nil
	})
	admit := syncloop.AdmitAll(fit, namespaces)
	fmt.Println(admit.Admit(pod("small", "400m"), nil))
	other := pod("other", "700m")
	other.UID = "1"
	fmt.Println(admit.Admit(pod("large", "400m"), []*v1.Pod{other}))
	rejected := pod("rejected", "1m")
	rejected.Namespace = "forbidden"
	fmt.Println(admit.Admit(rejected, nil))
	// Output:
	// <nil>
	// OutOfcpu: Node didn't have enough resource: cpu, requested: 400, used: 700, capacity: 1000
	// ForbiddenNamespace: pods of forbidden do not run here
}
