package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
)

// KEP-5419: pod-level resources in the status.
func TestPodLevelResources(t *testing.T) {
	value := func(v int64) *int64 { return &v }
	own := func(cpu, memory, maxCPU, maxMemory string) *v1.ResourceRequirements {
		return &v1.ResourceRequirements{Requests: list(cpu, memory), Limits: list(maxCPU, maxMemory)}
	}
	reported := &observed.Resources{MilliCPURequest: value(50), MilliCPULimit: value(150), MemoryLimit: value(1 << 20)}
	for _, tc := range []struct {
		name                        string
		change                      func(*Input)
		allocated, requests, limits string
	}{
		{"no resources", func(in *Input) {}, "//", "//", "//"},
		{"resources of containers", func(in *Input) {
			in.Pod.Spec.Containers[0].Resources = *own("100m", "", "200m", "2Mi")
			in.Pod.Spec.Containers[1].Resources = *own("30m", "1Mi", "", "")
		}, "130m/1Mi/", "130m/1Mi/", "200m/2Mi/"},
		{"resources reported by the runtime", func(in *Input) {
			in.Pod.Spec.Containers[0].Resources = *own("100m", "", "200m", "2Mi")
			in.Observed.Containers[0].Resources = reported
		}, "100m//", "50m//", "150m/1Mi/"},
		{"resources of a sidecar reported by the runtime", func(in *Input) {
			always := v1.ContainerRestartPolicyAlways
			in.Pod.Spec.InitContainers[0].Resources, in.Pod.Spec.InitContainers[0].RestartPolicy = *own("100m", "", "200m", "2Mi"), &always
			in.Observed = observe(running("i"), running("a"), running("b"))
			in.Observed.Containers[0].Resources = reported
		}, "100m//", "50m//", "150m/1Mi/"},
		{"allocated resources", func(in *Input) {
			in.Pod.Spec.Containers[0].Resources = *own("100m", "", "", "")
			in.Pod.Spec.InitContainers[0].Resources = *own("100m", "", "", "")
			in.Allocated = map[string]v1.ResourceRequirements{"a": *own("70m", "", "", ""), "i": *own("80m", "", "", "")}
		}, "80m//", "80m//", "//"},
		{"resources of an init container", func(in *Input) { in.Pod.Spec.InitContainers[0].Resources = *own("100m", "", "", "") }, "100m//", "100m//", "//"},
		{"resources of the pod", func(in *Input) {
			in.Pod.Spec.Resources = own("500m", "8Mi", "1", "9Mi")
			in.Pod.Spec.Containers[0].Resources = *own("100m", "", "200m", "2Mi")
		}, "500m/8Mi/", "500m/8Mi/", "1/9Mi/"},
		{"the applied resources until a resize is complete", func(in *Input) {
			in.Pod.Spec.Resources = own("500m", "8Mi", "1", "9Mi")
			in.Applied = own("400m", "7Mi", "2", "8Mi")
		}, "500m/8Mi/", "400m/7Mi/", "2/8Mi/"},
		{"applied resources without pod-level resources in the spec are ignored", func(in *Input) { in.Applied = own("400m", "7Mi", "2", "8Mi") }, "//", "//", "//"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := Input{Pod: podOf(v1.RestartPolicyAlways, "i:i", "a", "b"), Observed: observe(running("a"), running("b"), exited("i", 0))}
			tc.change(&in)
			s := compute(t, in)
			require.Equal(t, tc.allocated, quantities(s.AllocatedResources))
			require.Equal(t, tc.requests, quantities(s.Resources.Requests))
			require.Equal(t, tc.limits, quantities(s.Resources.Limits))
		})
	}
}

// If an Override removes the container statuses, as for a rejected pod, the allocated resources
// apply.
func TestPodLevelResourcesWithoutStatuses(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "i:i", "a")
	pod.Spec.Containers[0].Resources.Requests = list("100m", "")
	s := compute(t, Input{Pod: pod, Observed: observe(running("a")), Override: func(s *v1.PodStatus) { *s = Reject(pod, "OutOfcpu", "no cpu left") }})
	require.Empty(t, s.ContainerStatuses)
	require.Equal(t, "100m//", quantities(s.Resources.Requests))
}
