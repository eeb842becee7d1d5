package request

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/internal/podfacts"
)

// amounts are the values for a cgroup.
type amounts struct {
	// requestMilli is negative without a request.
	requestMilli, limitMilli int64
	memory                   int64
	// noQuota disables the CPU limit.
	noQuota bool
}

// linux converts amounts to the runtime's resources.
func (n *Node) linux(a amounts) *runtimeapi.LinuxContainerResources {
	if a.requestMilli < 0 {
		a.requestMilli = a.limitMilli
	}
	out := &runtimeapi.LinuxContainerResources{CpuShares: int64(cgroups.Shares(a.requestMilli)), MemoryLimitInBytes: a.memory}
	if !n.NoCPUQuota {
		out.CpuPeriod = int64(n.CPUQuotaPeriod / time.Microsecond)
		switch {
		case a.noQuota:
			out.CpuQuota = cgroups.Unlimited
		default:
			out.CpuQuota = cgroups.Quota(a.limitMilli, n.CPUQuotaPeriod)
		}
	}
	if n.CgroupV2 && !n.SingleProcessOOMKill {
		out.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return out
}

// ContainerResources returns the resources of a container's cgroup, for its creation and for
// resizes.
func (b *Builder) ContainerResources(pod *v1.Pod, c *v1.Container) *runtimeapi.LinuxContainerResources {
	node := &b.cfg.Node
	var podLevel v1.ResourceList
	if pod.Spec.Resources != nil {
		podLevel = pod.Spec.Resources.Limits
	}
	a := amounts{requestMilli: -1, noQuota: b.cfg.ExclusiveCPUs(pod, c)}
	if q, ok := c.Resources.Requests[v1.ResourceCPU]; ok {
		a.requestMilli = q.MilliValue()
	}
	cpu := firstPositive(v1.ResourceCPU, c.Resources.Limits, podLevel)
	memory := firstPositive(v1.ResourceMemory, c.Resources.Limits, podLevel)
	a.limitMilli, a.memory = cpu.MilliValue(), memory.Value()
	out := node.linux(a)
	out.OomScoreAdj = oomScore(pod, c, node.MemoryCapacity)
	out.HugepageLimits = node.hugePages(podLevel, c.Resources.Limits)
	node.setSwap(out, pod, c)
	node.setMemoryQoS(out, pod, c)
	return out
}

// firstPositive returns a resource from the first list with a nonzero amount, or zero.
func firstPositive(name v1.ResourceName, lists ...v1.ResourceList) resource.Quantity {
	for _, list := range lists {
		if q := list[name]; !q.IsZero() {
			return q
		}
	}
	return resource.Quantity{}
}

// sandboxResources returns the resources of the whole pod without its overhead, for the creation
// of its sandbox and for resizes: the pod-level resources, or else the sum of its containers'
// needs.
func (b *Builder) sandboxResources(pod *v1.Pod) *runtimeapi.LinuxContainerResources {
	request, asked := podRequest(pod, v1.ResourceCPU)
	a := amounts{requestMilli: -1, noQuota: b.cfg.ExclusiveCPUs(pod, nil)}
	if asked {
		a.requestMilli = request
	}
	a.limitMilli = podLimit(pod, v1.ResourceCPU)
	a.memory = podLimit(pod, v1.ResourceMemory)
	return b.cfg.Node.linux(a)
}

// Overhead returns the overhead of the pod's RuntimeClass. It is empty without one.
func (b *Builder) Overhead(pod *v1.Pod) *runtimeapi.LinuxContainerResources {
	if pod.Spec.Overhead == nil {
		return &runtimeapi.LinuxContainerResources{}
	}
	cpu, memory := pod.Spec.Overhead[v1.ResourceCPU], pod.Spec.Overhead[v1.ResourceMemory]
	return b.cfg.Node.linux(amounts{requestMilli: cpu.MilliValue(), limitMilli: cpu.MilliValue(), memory: memory.Value()})
}

// podRequest returns a pod's request for a resource, without overhead, and whether there is one:
// the pod-level request, or else the sum of its containers' needs. A limit replaces a missing
// request, as in an API server. CPU is in millicores.
func podRequest(pod *v1.Pod, name v1.ResourceName) (int64, bool) {
	if r := pod.Spec.Resources; r != nil {
		if q, ok := r.Requests[name]; ok {
			return units(name, q), true
		}
	}
	return aggregate(pod, name, func(r *v1.ResourceRequirements) (resource.Quantity, bool) {
		q, ok := r.Requests[name]
		if !ok {
			q, ok = r.Limits[name]
		}
		return q, ok
	})
}

// podLimit returns the pod-level limit, or else the sum of the containers' limits. A container
// without a limit counts as 0.
func podLimit(pod *v1.Pod, name v1.ResourceName) int64 {
	if r := pod.Spec.Resources; r != nil {
		if q, ok := r.Limits[name]; ok {
			return units(name, q)
		}
	}
	limit, _ := aggregate(pod, name, func(r *v1.ResourceRequirements) (resource.Quantity, bool) {
		q, ok := r.Limits[name]
		return q, ok
	})
	return limit
}

func units(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// aggregate returns the largest amount that the pod's containers need at one time: all regular
// containers and sidecars, or an init container and the sidecars before it (KEP-753).
func aggregate(pod *v1.Pod, name v1.ResourceName, of func(*v1.ResourceRequirements) (resource.Quantity, bool)) (int64, bool) {
	var running, sidecars, most int64
	found := false
	need := func(r *v1.ResourceRequirements) int64 {
		q, ok := of(r)
		found = found || ok
		return units(name, q)
	}
	for i := range pod.Spec.Containers {
		running += need(&pod.Spec.Containers[i].Resources)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		n := need(&c.Resources)
		if podfacts.IsSidecar(c) {
			sidecars += n
			continue
		}
		most = max(most, sidecars+n)
	}
	return max(running+sidecars, most), found
}

// hugePages returns a limit for each of the node's huge page sizes: the container's limit, or
// else the pod's, or else 0.
func (n *Node) hugePages(podLevel, own v1.ResourceList) []*runtimeapi.HugepageLimit {
	out := make([]*runtimeapi.HugepageLimit, 0, len(n.HugePageSizes))
	for _, size := range n.HugePageSizes {
		limit := &runtimeapi.HugepageLimit{PageSize: size}
		for _, list := range []v1.ResourceList{podLevel, own} {
			if q, ok := hugePageLimit(list, size); ok {
				limit.Limit = uint64(max(q.Value(), 0))
			}
		}
		out = append(out, limit)
	}
	return out
}

// hugePageLimit returns the limit for a page size in the form of runtimes: "2MB" is
// hugepages-2Mi.
func hugePageLimit(list v1.ResourceList, size string) (resource.Quantity, bool) {
	for name, q := range list {
		if text, ok := cgroups.HugePageSize(name); ok && text == size {
			return q, true
		}
	}
	return resource.Quantity{}, false
}
