package admission

import (
	"math/rand/v2"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/testpods"
)

var list = testpods.Quantities

// newPod returns a pod with one container that has requests. Its UID is its name.
func newPod(name string, requests v1.ResourceList, change ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: requests}}}},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func withPriority(p int32) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Spec.Priority = &p } }

var critical = withPriority(2_000_000_000)

func static(pod *v1.Pod) { pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }

func leaving(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }

func guaranteed(pod *v1.Pod) {
	c := &pod.Spec.Containers[0].Resources
	c.Limits = c.Requests
}

func node(allocatable v1.ResourceList) func() v1.ResourceList {
	return func() v1.ResourceList { return allocatable }
}

func names(pods []*v1.Pod) (out []string) {
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return out
}

// randomPod returns a pod of a random class with random requests.
func randomPod(r *rand.Rand, i int) *v1.Pod {
	requests := list("cpu", strconv.Itoa(100*r.IntN(20))+"m", "memory", strconv.Itoa(10*r.IntN(30))+"Mi")
	pod := newPod("p"+strconv.Itoa(i), requests)
	switch r.IntN(4) {
	case 0:
		guaranteed(pod)
	case 1:
		pod.Spec.Containers[0].Resources.Requests = nil
	}
	if r.IntN(8) == 0 {
		critical(pod)
	} else if r.IntN(2) == 0 {
		withPriority(int32(r.IntN(1000)))(pod)
	}
	return pod
}
