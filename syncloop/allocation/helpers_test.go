package allocation

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// with returns requests of cpu and memory; "" is none. A third argument adds equal limits.
func with(cpu, memory string, limits ...string) v1.ResourceRequirements {
	list := v1.ResourceList{}
	for name, text := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if text != "" {
			list[name] = resource.MustParse(text)
		}
	}
	r := v1.ResourceRequirements{Requests: list}
	if len(limits) > 0 {
		r.Limits = list
	}
	return r
}

// newPod returns a pod with one container, "c". Its UID is its name.
func newPod(name string, r v1.ResourceRequirements, change ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 1},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: r}}},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func resized(pod *v1.Pod, r v1.ResourceRequirements) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Generation++
	pod.Spec.Containers[0].Resources = r
	return pod
}

func withPriority(p int32) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Spec.Priority = &p } }

func static(pod *v1.Pod) { pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }

func leaving(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }

// node returns the Fit of a node with milli thousandths of a CPU.
func node(milli int64) Fit {
	return func(pod *v1.Pod, others []*v1.Pod) error {
		used := int64(0)
		for _, p := range append([]*v1.Pod{pod}, others...) {
			for i := range p.Spec.Containers {
				used += p.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
			}
		}
		if used > milli {
			return fmt.Errorf("%d of %d", used, milli)
		}
		return nil
	}
}
