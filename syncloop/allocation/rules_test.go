package allocation

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// N17
func TestRules(t *testing.T) {
	guaranteed := newPod("a", with("1", "1Mi", "limits"))
	burstable := newPod("a", with("1", "1Mi"))
	whole := burstable.DeepCopy()
	whole.Spec.Resources = &guaranteed.Spec.Containers[0].Resources
	moreCPU, moreMemory := with("2", "1Mi", "limits"), with("1", "2Mi", "limits")
	restarting := newPod("a", with("1", "1Mi"))
	restarting.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{
		{ResourceName: v1.ResourceCPU, RestartPolicy: v1.NotRequired}, {ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer},
	}
	swapping := Rules{Swaps: func(pod *v1.Pod, _ *v1.Container) bool { return pod.Generation == 1 }}
	ends := Rules{Swaps: func(_ *v1.Pod, c *v1.Container) bool { return c.Image == "swaps" }}
	begins := resized(burstable, with("1", "2Mi"))
	begins.Spec.Containers[0].Image = "swaps"
	two := burstable.DeepCopy()
	two.Spec.Containers[0].Image = "swaps"
	two.Spec.Containers = append(two.Spec.Containers, v1.Container{Name: "d", Resources: with("1", "1Mi")})
	both := resized(two, with("1", "2Mi"))
	both.Spec.Containers[1].Resources = with("1", "2Mi")
	for _, c := range []struct {
		name     string
		rules    Rules
		from, to *v1.Pod
		want     string
	}{
		{"no rules", Rules{}, guaranteed, resized(guaranteed, moreCPU), ""},
		{"exclusive CPUs", Rules{StaticCPU: true}, guaranteed, resized(guaranteed, moreCPU), "guaranteed_pod_cpu_manager_static_policy"},
		{"exclusive CPUs, memory changes", Rules{StaticCPU: true}, guaranteed, resized(guaranteed, moreMemory), ""},
		{"exclusive memory", Rules{StaticMemory: true}, guaranteed, resized(guaranteed, moreMemory), "guaranteed_pod_memory_manager_static_policy"},
		{"exclusive memory, CPU changes", Rules{StaticMemory: true}, guaranteed, resized(guaranteed, moreCPU), ""},
		{"not Guaranteed", Rules{StaticCPU: true, StaticMemory: true}, burstable, resized(burstable, with("2", "2Mi")), ""},
		{"pod-level resources", Rules{}, burstable, whole, ""},
		{"swap", swapping, burstable, resized(burstable, with("1", "2Mi")), "swap_limitation"},
		{"swap after the resize", ends, burstable, begins, "swap_limitation"},
		{"first of two containers swaps", ends, two, both, "swap_limitation"},
		{"new container swaps", swapping, burstable, two, ""},
		{"swap and CPU", swapping, burstable, resized(burstable, with("2", "1Mi")), ""},
		{"swap and a restart", swapping, restarting, resized(restarting, with("1", "2Mi")), ""},
	} {
		err := c.rules.Check(c.from, c.to)
		var why *Infeasible
		require.Equal(t, c.want != "", errors.As(err, &why), c.name)
		if why != nil {
			require.Equal(t, c.want, why.Detail, c.name)
		}
	}
}

// Resources include init containers, containers and pod-level resources: requests and limits.
func TestResourcesCoverAllContainers(t *testing.T) {
	base := newPod("a", with("1", "1Mi", "limits"))
	base.Spec.InitContainers = []v1.Container{{Name: "i", Resources: with("1", "")}}
	whole := with("2", "")
	for name, change := range map[string]func(*v1.Pod){
		"requests":       func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = with("2", "1Mi").Requests },
		"limits":         func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = with("2", "1Mi").Requests },
		"init container": func(p *v1.Pod) { p.Spec.InitContainers[0].Resources = with("2", "") },
		"pod":            func(p *v1.Pod) { p.Spec.Resources = &whole },
	} {
		changed := base.DeepCopy()
		change(changed)
		require.False(t, ResourcesOf(base).Equal(ResourcesOf(changed)), name)
		require.False(t, ResourcesOf(base).Describes(changed), name)
		require.False(t, ResourcesOf(changed).Describes(base), name)
		require.Equal(t, changed, ResourcesOf(changed).Apply(base), name)
		require.True(t, ResourcesOf(changed).Describes(changed), name)
	}
	more, other := base.DeepCopy(), with("3", "")
	more.Spec.Resources = &other
	same := base.DeepCopy()
	same.Spec.Resources = &whole
	require.False(t, ResourcesOf(more).Equal(ResourcesOf(same)))
	require.False(t, ResourcesOf(more).Describes(same))
}

// OnRequest is called with the operation for each changed amount of a container or of the
// pod-level resources.
func TestMetricsCount(t *testing.T) {
	pod := func(r v1.ResourceRequirements, whole *v1.ResourceRequirements) *v1.Pod {
		return newPod("a", r, func(pod *v1.Pod) { pod.Spec.Resources = whole })
	}
	small := v1.ResourceRequirements{Requests: with("1", "1Mi").Requests, Limits: with("", "2Mi").Requests}
	large := v1.ResourceRequirements{Requests: with("2", "1Mi").Requests, Limits: with("3", "1Mi").Requests}
	grown := []string{"cpu requests increase", "cpu limits add", "memory limits decrease"}
	shrunk := []string{"cpu requests decrease", "cpu limits remove", "memory limits increase"}
	none := v1.ResourceRequirements{}
	for name, c := range map[string]struct {
		before, now *v1.Pod
		want        []string
	}{
		"nothing":                     {pod(small, &large), pod(small, &large), nil},
		"a container grows":           {pod(small, nil), pod(large, nil), grown},
		"a container shrinks":         {pod(large, nil), pod(small, nil), shrunk},
		"the pod grows":               {pod(none, &small), pod(none, &large), grown},
		"the pod shrinks":             {pod(none, &large), pod(none, &small), shrunk},
		"pod-level resources added":   {pod(none, nil), pod(none, &small), []string{"cpu requests add", "memory requests add", "memory limits add"}},
		"pod-level resources removed": {pod(none, &small), pod(none, nil), []string{"cpu requests remove", "memory requests remove", "memory limits remove"}},
	} {
		var got []string
		m := Metrics{OnRequest: func(resource, requirement, operation string) {
			got = append(got, resource+" "+requirement+" "+operation)
		}}
		m.count(c.before, c.now)
		require.ElementsMatch(t, c.want, got, name)
	}
}
