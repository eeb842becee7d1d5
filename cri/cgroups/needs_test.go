package cgroups

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// needs returns equal requests and limits, in milli-CPUs and MiB.
func needs(cpu, memory int64) v1.ResourceRequirements {
	list := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
	}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

func TestNeeds(t *testing.T) {
	sidecar := v1.Container{RestartPolicy: new(v1.ContainerRestartPolicyAlways), Resources: needs(10, 10)}
	for _, tc := range []struct {
		name string
		spec v1.PodSpec
		want Needs
	}{
		{"sum", v1.PodSpec{Containers: []v1.Container{{Resources: needs(100, 1)}, {Resources: needs(200, 2)}}},
			Needs{300, 3 << 20, 300, 3 << 20}},
		{"one without a limit", v1.PodSpec{Containers: []v1.Container{{Resources: needs(100, 1)}, {}}},
			Needs{100, 1 << 20, 0, 0}},
		{"a big init container after a sidecar", v1.PodSpec{
			InitContainers: []v1.Container{sidecar, {Resources: needs(500, 1)}},
			Containers:     []v1.Container{{Resources: needs(100, 1)}},
		}, Needs{510, 11 << 20, 510, 11 << 20}},
		{"overhead", v1.PodSpec{Overhead: needs(5, 5).Limits, Containers: []v1.Container{{Resources: needs(100, 1)}}},
			Needs{105, 6 << 20, 105, 6 << 20}},
		{"overhead without a limit", v1.PodSpec{Overhead: needs(5, 5).Limits, Containers: []v1.Container{{}}},
			Needs{5, 5 << 20, 0, 0}},
		{"pod level", v1.PodSpec{Resources: new(needs(7, 7)), Containers: []v1.Container{{}}},
			Needs{7, 7 << 20, 7, 7 << 20}},
		{"zero for the pod is no limit", v1.PodSpec{Resources: new(needs(0, 0)), Containers: []v1.Container{{}}},
			Needs{}},
		{"pod level, the least there is", v1.PodSpec{Resources: new(needs(1, 1)), Containers: []v1.Container{{Resources: needs(5, 5)}}},
			Needs{1, 1 << 20, 1, 1 << 20}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, NeedsOf(&v1.Pod{Spec: tc.spec}))
		})
	}
}
