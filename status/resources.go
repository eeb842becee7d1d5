package status

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/pleg/observed"
)

// The kernel's minimum values. Requests and limits below them are equivalent.
const (
	minCPULimit   = 10 // thousandths of a CPU
	minCPURequest = 2
)

func (b *builder) setAllocated(x *subject, out *v1.ContainerStatus) {
	resources := b.allocated(x.Container)
	out.AllocatedResources = copyList(resources.Requests)
	x.resources = v1.ResourceRequirements{
		Limits: copyList(resources.Limits), Requests: copyList(resources.Requests), Claims: slices.Clone(resources.Claims),
	}
	out.Resources = &x.resources
}

// allocated returns the container's allocated resources, or the resources of its spec without an
// allocation.
func (b *builder) allocated(c *v1.Container) *v1.ResourceRequirements {
	if resources, ok := b.in.Allocated[c.Name]; ok {
		return &resources
	}
	return &c.Resources
}

// report replaces the allocated resources of a running container by the runtime's values. A value
// that the runtime omits stays as last reported for the same instance, because a granted resize
// may not have happened yet. Memory requests are unknown to the runtime and stay as allocated.
func report(out *v1.ContainerStatus, reported *observed.Resources, old *v1.ContainerStatus) {
	var none observed.Resources
	if reported == nil {
		reported = &none
	}
	var before v1.ResourceRequirements
	if old != nil && old.Resources != nil && old.State.Running != nil && old.ContainerID == out.ContainerID {
		before = *old.Resources
	}
	overlayCPU(out.Resources.Limits, before.Limits, reported.MilliCPULimit, minCPULimit)
	overlayCPU(out.Resources.Requests, before.Requests, reported.MilliCPURequest, minCPURequest)
	overlayMemory(out.Resources.Limits, before.Limits, reported.MemoryLimit)
}

// overlayCPU replaces the CPU of list by the reported milliCPUs. Without a report it uses before.
func overlayCPU(list, before v1.ResourceList, reported *int64, floor int64) {
	allocated := list[v1.ResourceCPU]
	switch {
	case list == nil:
	case reported == nil:
		keep(list, before, v1.ResourceCPU)
	case allocated.MilliValue() == *reported:
	case *reported <= floor && allocated.MilliValue() <= floor:
	default:
		list[v1.ResourceCPU] = *resource.NewMilliQuantity(*reported, resource.DecimalSI)
	}
}

// overlayMemory replaces the memory of list by the reported bytes. Without a report it uses
// before.
func overlayMemory(list, before v1.ResourceList, reported *int64) {
	allocated := list[v1.ResourceMemory]
	switch {
	case list == nil:
	case reported == nil:
		keep(list, before, v1.ResourceMemory)
	case allocated.Value() == *reported:
	default:
		list[v1.ResourceMemory] = *resource.NewQuantity(*reported, resource.BinarySI)
	}
}

func keep(list, before v1.ResourceList, name v1.ResourceName) {
	if q, ok := before[name]; ok {
		list[name] = q.DeepCopy()
	}
}

func copyList(list v1.ResourceList) v1.ResourceList {
	out := maps.Clone(list)
	for name, q := range out {
		if own := q.DeepCopy(); own != q { // a large quantity, stored behind a pointer
			out[name] = own
		}
	}
	return out
}
