package cgroups_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/cgroups"
)

// The cgroup name and values of a pod on a node with systemd.
func Example() {
	cpu := v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "11-22"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: cpu, Limits: cpu}}}},
	}
	tree, err := cgroups.NewTree(cgroups.Systemd, "/")
	if err != nil {
		fmt.Println(err)
		return
	}
	name := tree.Pod(pod)
	fmt.Println(tree.Path(name))
	values := cgroups.ForPod(cgroups.Config{PodPids: 1000}, pod)
	fmt.Println(values.Files(cgroups.V2))
	pinned := cgroups.Config{PodPids: 1000, ExclusiveCPUs: func(*v1.Pod) bool { return true }} // no quota for exclusive CPUs
	fmt.Println(cgroups.ForPod(pinned, pod).Files(cgroups.V2))
	uid, class, _ := tree.PodOf(name)
	fmt.Println(uid, class)
	// Output:
	// /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11_22.slice
	// map[cpu.max:25000 100000 cpu.weight:10 pids.max:1000]
	// map[cpu.max:max 100000 cpu.weight:10 pids.max:1000]
	// 11-22 Burstable
}
