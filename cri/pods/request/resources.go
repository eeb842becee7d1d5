package request

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

const (
	minShares = 2
	maxShares = 262144
	// minQuota is the smallest quota, in microseconds, that the kernel takes.
	minQuota = 1000
)

// linuxResources turns CPU in thousandths and memory in bytes into what a cgroup
// is given. A negative request means that there is none.
func linuxResources(requestMilli, limitMilli, memory int64, node Node) *runtimeapi.LinuxContainerResources {
	if requestMilli < 0 {
		requestMilli = limitMilli
	}
	out := &runtimeapi.LinuxContainerResources{CpuShares: shares(requestMilli), MemoryLimitInBytes: memory}
	if !node.NoCPUQuota {
		period := int64(node.CPUQuotaPeriod / time.Microsecond)
		out.CpuPeriod = period
		if limitMilli > 0 {
			out.CpuQuota = max(limitMilli*period/1000, minQuota)
		}
	}
	return out
}

func shares(milli int64) int64 { return min(max(milli*1024/1000, minShares), maxShares) }

// containerResources is what a container's cgroup is given.
func containerResources(pod *v1.Pod, c *v1.Container, node Node) *runtimeapi.LinuxContainerResources {
	var podLevel v1.ResourceList
	if pod.Spec.Resources != nil {
		podLevel = pod.Spec.Resources.Limits
	}
	request := int64(-1)
	if q, ok := c.Resources.Requests[v1.ResourceCPU]; ok {
		request = q.MilliValue()
	}
	cpu := firstQuantity(v1.ResourceCPU, c.Resources.Limits, podLevel)
	memory := firstQuantity(v1.ResourceMemory, c.Resources.Limits, podLevel)
	out := linuxResources(request, cpu.MilliValue(), memory.Value(), node)
	out.OomScoreAdj = oomScore(pod, c, node.MemoryCapacity)
	if node.CgroupV2 && !node.SingleProcessOOMKill {
		out.Unified = map[string]string{"memory.oom.group": "1"}
	}
	if node.SwapController {
		forbidSwap(out, node.CgroupV2)
	}
	for _, size := range node.HugePageSizes {
		out.HugepageLimits = append(out.HugepageLimits, &runtimeapi.HugepageLimit{PageSize: size})
	}
	return out
}

// forbidSwap takes the swap away from a container.
func forbidSwap(r *runtimeapi.LinuxContainerResources, v2 bool) {
	if !v2 {
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
		return
	}
	if r.Unified == nil {
		r.Unified = map[string]string{}
	}
	r.Unified["memory.swap.max"] = "0"
}

// firstQuantity returns a resource from the first list that names it, else zero.
func firstQuantity(name v1.ResourceName, lists ...v1.ResourceList) resource.Quantity {
	for _, list := range lists {
		if q, ok := list[name]; ok {
			return q
		}
	}
	return resource.Quantity{}
}

// sandboxResources is the sum of what the containers ask for, or what the pod
// asks for as a whole.
func sandboxResources(pod *v1.Pod, node Node) *runtimeapi.LinuxContainerResources {
	var request, cpu, memory resource.Quantity
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		request.Add(firstQuantity(v1.ResourceCPU, r.Requests, r.Limits))
		cpu.Add(r.Limits[v1.ResourceCPU])
		memory.Add(r.Limits[v1.ResourceMemory])
	}
	if r := pod.Spec.Resources; r != nil {
		request = withDefault(firstQuantity(v1.ResourceCPU, r.Requests, r.Limits), request)
		cpu = withDefault(r.Limits[v1.ResourceCPU], cpu)
		memory = withDefault(r.Limits[v1.ResourceMemory], memory)
	}
	return linuxResources(request.MilliValue(), cpu.MilliValue(), memory.Value(), node)
}

func withDefault(q, fallback resource.Quantity) resource.Quantity {
	if q.IsZero() {
		return fallback
	}
	return q
}

// overheadResources is the overhead of the pod's RuntimeClass, nil without any.
func overheadResources(pod *v1.Pod, node Node) *runtimeapi.LinuxContainerResources {
	if len(pod.Spec.Overhead) == 0 {
		return nil
	}
	cpu, memory := pod.Spec.Overhead[v1.ResourceCPU], pod.Spec.Overhead[v1.ResourceMemory]
	return linuxResources(cpu.MilliValue(), cpu.MilliValue(), memory.Value(), node)
}

// OOM scores: the kernel kills the highest first.
const (
	oomGuaranteed   = -997
	oomBestEffort   = 1000
	minOOMBurstable = 1000 + oomGuaranteed
	nodeCritical    = "system-node-critical"
)

// oomScore protects a container by how much of the node's memory it asked for.
func oomScore(pod *v1.Pod, c *v1.Container, capacity int64) int64 {
	class := podfacts.QOSClass(pod)
	switch {
	case pod.Spec.PriorityClassName == nodeCritical, class == v1.PodQOSGuaranteed:
		return oomGuaranteed
	case class == v1.PodQOSBestEffort:
		return oomBestEffort
	}
	score := int64(oomBestEffort)
	if capacity > 0 {
		score -= int64(float64(memoryShare(pod, c)) * 1000 / float64(capacity))
	}
	return min(max(score, minOOMBurstable), oomBestEffort-1)
}

// memoryShare is the memory that a container asked for, with an even part of
// what the pod asked for beyond its containers.
func memoryShare(pod *v1.Pod, c *v1.Container) int64 {
	share := firstQuantity(v1.ResourceMemory, c.Resources.Requests)
	if pod.Spec.Resources == nil {
		return share.Value()
	}
	whole, ok := pod.Spec.Resources.Requests[v1.ResourceMemory]
	if !ok || len(pod.Spec.Containers) == 0 {
		return share.Value()
	}
	rest := whole.Value()
	for i := range pod.Spec.Containers {
		q := pod.Spec.Containers[i].Resources.Requests[v1.ResourceMemory]
		rest -= q.Value()
	}
	return share.Value() + max(rest, 0)/int64(len(pod.Spec.Containers))
}
