package eviction

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const mi = 1 << 20

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func newPod(name string, edits ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{"kubernetes.io/config.source": "api"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func requests(name v1.ResourceName, amount string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{name: resource.MustParse(amount)}
	}
}

func limits(amount string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(amount)}
	}
}

func priority(n int32) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Spec.Priority = &n } }

func grace(n int64) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &n }
}

func static(pod *v1.Pod) { pod.Annotations["kubernetes.io/config.source"] = "file" }

func tolerates(t v1.Toleration) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Tolerations = []v1.Toleration{t} }
}

func emptyDir(limit string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		q := resource.MustParse(limit)
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &q}}}}
	}
}

func memoryUse(n uint64) PodUsage {
	return PodUsage{Memory: &n, Containers: map[string]ContainerUsage{"c": {Memory: &n}}}
}

func diskUse(root, logs, volumes uint64) PodUsage {
	return PodUsage{Volumes: Disk{Bytes: &volumes}, Containers: map[string]ContainerUsage{"c": {Root: Disk{Bytes: &root}, Logs: Disk{Bytes: &logs}}}}
}

// usageOf returns a measurement with one signal.
func usageOf(s Signal, available, capacity uint64, at time.Time) Usage {
	return Usage{Signals: map[Signal]Reading{s: {Available: available, Capacity: capacity, Time: at}}, Pods: map[types.UID]PodUsage{}}
}

func hard(s Signal, amount int64) Threshold {
	return Threshold{Signal: s, Value: Value{Amount: amount}}
}

func names(pods []*v1.Pod) (out []string) {
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return out
}
