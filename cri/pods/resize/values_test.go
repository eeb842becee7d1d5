package resize

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCgroupValues(t *testing.T) {
	sidecar := v1.Container{RestartPolicy: new(v1.ContainerRestartPolicyAlways), Resources: needs(10, 10)}
	for _, tc := range []struct {
		name string
		spec v1.PodSpec
		want CgroupValues
	}{
		{"sum", v1.PodSpec{Containers: []v1.Container{{Resources: needs(100, 1)}, {Resources: needs(200, 2)}}},
			CgroupValues{300, 3 << 20, 300, 3 << 20}},
		{"one without a limit", v1.PodSpec{Containers: []v1.Container{{Resources: needs(100, 1)}, {}}},
			CgroupValues{100, 1 << 20, 0, 0}},
		{"a big init container after a sidecar", v1.PodSpec{
			InitContainers: []v1.Container{sidecar, {Resources: needs(500, 1)}},
			Containers:     []v1.Container{{Resources: needs(100, 1)}},
		}, CgroupValues{510, 11 << 20, 510, 11 << 20}},
		{"overhead", v1.PodSpec{Overhead: needs(5, 5).Limits, Containers: []v1.Container{{Resources: needs(100, 1)}}},
			CgroupValues{105, 6 << 20, 105, 6 << 20}},
		{"overhead without a limit", v1.PodSpec{Overhead: needs(5, 5).Limits, Containers: []v1.Container{{}}},
			CgroupValues{5, 5 << 20, 0, 0}},
		{"pod level", v1.PodSpec{Resources: new(needs(7, 7)), Containers: []v1.Container{{}}},
			CgroupValues{7, 7 << 20, 7, 7 << 20}},
		{"pod level, the least there is", v1.PodSpec{Resources: new(needs(1, 1)), Containers: []v1.Container{{Resources: needs(5, 5)}}},
			CgroupValues{1, 1 << 20, 1, 1 << 20}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := CgroupValues{CPURequest: tc.want.CPURequest, MemoryRequest: tc.want.MemoryRequest, CPULimit: tc.want.CPULimit, MemoryLimit: tc.want.MemoryLimit}
			require.Equal(t, want, cgroupValues(&v1.Pod{Spec: tc.spec}))
		})
	}
}

func TestWithoutOverhead(t *testing.T) {
	require.Equal(t, int64(3), withoutOverhead(5, 2))
	require.Zero(t, withoutOverhead(0, 2), "no limit is none")
}

// A limit of 0 is none, which is more than any.
func TestGrows(t *testing.T) {
	limit, request := valuesOf(v1.ResourceMemory)
	values := func(n int64) CgroupValues { return CgroupValues{MemoryLimit: n, MemoryRequest: n} }
	for _, c := range []struct {
		from, to                 int64
		limitGrows, requestGrows bool
	}{{1, 2, true, true}, {2, 1, false, false}, {2, 2, false, false}, {0, 1, false, true}, {1, 0, true, false}, {0, 0, false, false}} {
		require.Equal(t, c.limitGrows, limit.grows(values(c.from), values(c.to)), c)
		require.Equal(t, c.requestGrows, request.grows(values(c.from), values(c.to)), c)
		require.Equal(t, c.from == c.to, limit.same(values(c.from), values(c.to)), c)
	}
}

// A limit that is wanted no more stays; the pod that was given does not change.
func TestWantedPod(t *testing.T) {
	now := &v1.Pod{Spec: v1.PodSpec{
		Resources:      new(needs(7, 7)),
		InitContainers: []v1.Container{{Resources: needs(3, 3)}},
		Containers:     []v1.Container{{Resources: needs(5, 5)}, {Resources: needs(6, 6)}},
	}}
	cpuOnly := needs(4, 4)
	delete(cpuOnly.Limits, v1.ResourceMemory)
	pod := &v1.Pod{Spec: v1.PodSpec{
		Resources:      new(cpuOnly),
		InitContainers: []v1.Container{{Resources: cpuOnly}},
		Containers:     []v1.Container{{Resources: cpuOnly}, {}},
	}}
	given := pod.DeepCopy()
	out := wantedPod(pod, now)
	require.Equal(t, given, pod)
	limits := func(cpu, memory int64) CgroupValues { return CgroupValues{CPULimit: cpu, MemoryLimit: memory << 20} }
	for want, got := range map[CgroupValues]v1.ResourceRequirements{
		limits(4, 7): *out.Spec.Resources, limits(4, 3): out.Spec.InitContainers[0].Resources,
		limits(4, 5): out.Spec.Containers[0].Resources, limits(6, 6): out.Spec.Containers[1].Resources,
	} {
		require.Equal(t, want, CgroupValues{CPULimit: got.Limits.Cpu().MilliValue(), MemoryLimit: got.Limits.Memory().Value()})
	}
}

// needs are requests and limits alike: milli-CPUs and MiB.
func needs(cpu, memory int64) v1.ResourceRequirements {
	list := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
	}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}
