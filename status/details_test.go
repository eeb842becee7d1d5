package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

func quantities(list v1.ResourceList) string {
	out := ""
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := list[name]; ok {
			out += q.String()
		}
		out += "/"
	}
	return out
}

func list(cpu, memory string) v1.ResourceList {
	out := v1.ResourceList{}
	if cpu != "" {
		out[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		out[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return out
}

func TestResources(t *testing.T) {
	value := func(v int64) *int64 { return &v }
	allocated := v1.ResourceRequirements{Requests: list("100m", "128M"), Limits: list("200m", "256M")}
	atFloor := v1.ResourceRequirements{Requests: list("2m", ""), Limits: list("10m", "")}
	for _, tc := range []struct {
		name             string
		granted          v1.ResourceRequirements
		reported         *observed.Resources
		requests, limits string
	}{
		{"the same in another notation", allocated, &observed.Resources{MemoryLimit: value(256000000)}, "100m/128M/", "200m/256M/"},
		{"at the floor", atFloor, &observed.Resources{MilliCPURequest: value(1), MilliCPULimit: value(5)}, "2m//", "10m//"},
		{"only the reported value below the floor", allocated, &observed.Resources{MilliCPURequest: value(2), MilliCPULimit: value(10)}, "2m/128M/", "10m/256M/"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Allocated: map[string]v1.ResourceRequirements{"c": tc.granted}}
			in.Observed = observe(running("c", func(c *observed.Container) { c.Resources = tc.reported }))
			c := compute(t, in).ContainerStatuses[0]
			require.Equal(t, tc.requests, quantities(c.Resources.Requests))
			require.Equal(t, tc.limits, quantities(c.Resources.Limits))
			require.Equal(t, quantities(tc.granted.Requests), quantities(c.AllocatedResources))
		})
	}
}

// Quantities beyond 64 bits, which are stored behind a pointer, are copied, too.
func TestLargeResourcesAreCopied(t *testing.T) {
	huge := v1.ResourceList{"example.com/x": resource.MustParse("12345678901234567890123")}
	in := Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(running("c"))}
	in.Pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: huge, Limits: huge}
	compute(t, in)
}

// ProbeNow is sorted and without duplicates, even if a pod ends while all containers should
// restart.
func TestProbeNow(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "s:s", "b", "a", "c")
	for _, c := range []*v1.Container{&pod.Spec.InitContainers[0], &pod.Spec.Containers[0], &pod.Spec.Containers[1]} {
		c.ReadinessProbe = &v1.Probe{}
	}
	restartAllRule(&pod.Spec.Containers[2], 42)
	in := Input{Pod: pod, Probes: probe.Results{}, Observed: observe(running("s"), running("b"), running("a"), exited("c", 42))}
	require.Equal(t, []string{"a", "b", "s"}, computeAll(t, in).ProbeNow)
	in.Fail = &podwright.Reason{Reason: ReasonDeadlineExceeded}
	require.Equal(t, []string{"a", "b", "s"}, computeAll(t, in).ProbeNow)
}

// Probe results without a container ID do not apply, a container that does not run is not ready,
// and an unobserved container is still probed.
func TestProbesOfUnusualContainers(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "i:i", "c")
	pod.Spec.InitContainers[0].StartupProbe, pod.Spec.Containers[0].StartupProbe = &v1.Probe{}, &v1.Probe{}
	previous := func(id string, state v1.ContainerState) *v1.PodStatus {
		s := was("c", id, 0, state, v1.ContainerState{})
		s.ContainerStatuses[0].Started, s.ContainerStatuses[0].Ready = new(true), true
		return s
	}
	failed := probe.Results{{Container: "c", ContainerID: "fake://c-0", Type: probe.Startup, Result: probe.Failure}}
	for name, in := range map[string]Input{
		"without an ID": {Previous: previous("", wasRunning()), Observed: observe(running("c", id(""))), Probes: probe.Results{}},
		"ended, ready":  {Previous: previous("c-0", wasTerminated(1, "")), Observed: observe()},
		"unobserved":    {Previous: previous("c-0", wasRunning()), Probes: failed},
	} {
		in.Pod, in.Now = pod, now
		c := computeTwice(t, in).Status.ContainerStatuses[0]
		require.Equal(t, [2]bool{}, [2]bool{*c.Started, c.Ready}, name)
	}
	s := compute(t, Input{Pod: pod, Probes: probe.Results{}, Observed: observe(running("i"))})
	require.True(t, *s.InitContainerStatuses[0].Started, "a plain init container is not probed")
}
