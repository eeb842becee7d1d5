package allocation

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Rules exclude resizes that can never be granted on the node. The zero value allows all.
type Rules struct {
	// Swaps reports whether a container may use swap. Default: no container does.
	Swaps func(pod *v1.Pod, c *v1.Container) bool
	// StaticCPU and StaticMemory are true if Guaranteed pods have exclusive CPUs or memory, which
	// cannot change while they run.
	StaticCPU, StaticMemory bool
}

// Check returns nil if a pod may be resized from its allocation to its requests. Errors are
// *Infeasible with upstream's details.
func (r Rules) Check(from, to *v1.Pod) error {
	has, wants := ResourcesOf(from), ResourcesOf(to)
	guaranteed := podfacts.QOSClass(to) == v1.PodQOSGuaranteed
	switch {
	case r.changesSwappedMemory(from, to):
		return &Infeasible{"swap_limitation", "In-place resize of the memory of containers with swap is not supported"}
	case guaranteed && r.StaticCPU && requestsDiffer(has, wants, v1.ResourceCPU):
		return &Infeasible{"guaranteed_pod_cpu_manager_static_policy", `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`}
	case guaranteed && r.StaticMemory && requestsDiffer(has, wants, v1.ResourceMemory):
		return &Infeasible{"guaranteed_pod_memory_manager_static_policy", `Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`}
	}
	return nil
}

// changesSwappedMemory reports whether the memory of a container with swap changes without a restart of
// the container. Its swap limit depends on its memory.
func (r Rules) changesSwappedMemory(from, to *v1.Pod) (found bool) {
	if r.Swaps == nil {
		return false
	}
	before := map[string]*v1.Container{}
	eachContainer(from, func(c *v1.Container) { before[c.Name] = c })
	eachContainer(to, func(c *v1.Container) {
		was := before[c.Name]
		if was == nil || was.Resources.Requests.Memory().Cmp(*c.Resources.Requests.Memory()) == 0 || restarts(c) {
			return
		}
		found = found || r.Swaps(from, was) || r.Swaps(to, c)
	})
	return found
}

func restarts(c *v1.Container) bool {
	for _, p := range c.ResizePolicy {
		if p.ResourceName == v1.ResourceMemory {
			return p.RestartPolicy == v1.RestartContainer
		}
	}
	return false
}

func requestsDiffer(a, b Resources, name v1.ResourceName) bool {
	for container, r := range b.ContainerResources {
		was, is := a.ContainerResources[container].Requests[name], r.Requests[name]
		if was.Cmp(is) != 0 {
			return true
		}
	}
	return false
}
