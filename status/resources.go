package status

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/pleg/observed"
)

// The kernel's floors: what is asked for below them is not told apart.
const (
	minCPULimit   = 10 // thousandths of a CPU
	minCPURequest = 2
)

// granted sets what the node has granted to a container.
func (b *builder) granted(x *subject, out *v1.ContainerStatus) {
	allocated := b.grantedTo(x.Container)
	out.AllocatedResources = copyList(allocated.Requests)
	x.resources = v1.ResourceRequirements{
		Limits: copyList(allocated.Limits), Requests: copyList(allocated.Requests), Claims: slices.Clone(allocated.Claims),
	}
	out.Resources = &x.resources
}

// grantedTo is what the node has granted to a container: what it asks for, unless it is
// said to be something else.
func (b *builder) grantedTo(c *v1.Container) *v1.ResourceRequirements {
	if granted, ok := b.in.Allocated[c.Name]; ok {
		return &granted
	}
	return &c.Resources
}

// report puts what the runtime reports of a running container over what it was
// granted. What the runtime leaves out is as it was reported of the same instance
// before: a resize that was granted has not happened for that. A request for
// memory is of no concern to the runtime, so that the granted one holds.
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

// overlayCPU puts the reported thousandths, or else what was reported before,
// over the granted ones in list.
func overlayCPU(list, before v1.ResourceList, reported *int64, floor int64) {
	granted := list[v1.ResourceCPU]
	switch {
	case list == nil:
	case reported == nil:
		keep(list, before, v1.ResourceCPU)
	case granted.MilliValue() == *reported:
	case *reported <= floor && granted.MilliValue() <= floor:
	default:
		list[v1.ResourceCPU] = *resource.NewMilliQuantity(*reported, resource.DecimalSI)
	}
}

// overlayMemory does the same with bytes.
func overlayMemory(list, before v1.ResourceList, reported *int64) {
	granted := list[v1.ResourceMemory]
	switch {
	case list == nil:
	case reported == nil:
		keep(list, before, v1.ResourceMemory)
	case granted.Value() == *reported:
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
		if own := q.DeepCopy(); own != q { // it points to something
			out[name] = own
		}
	}
	return out
}
