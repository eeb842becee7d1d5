package request

import (
	"math"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// unify sets a file of the unified cgroup hierarchy.
func unify(r *runtimeapi.LinuxContainerResources, file string, value int64) {
	if r.Unified == nil {
		r.Unified = map[string]string{}
	}
	r.Unified[file] = strconv.FormatInt(value, 10)
}

// setSwap limits the swap of a container, if the node accounts for swap.
func (n *Node) setSwap(r *runtimeapi.LinuxContainerResources, pod *v1.Pod, c *v1.Container) {
	switch {
	case !n.SwapController:
	case n.CgroupV2:
		unify(r, "memory.swap.max", n.swap(pod, c))
	default: // in cgroup v1 the limit is the sum of memory and swap
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
	}
}

// swap returns a container's share of the node's swap, in proportion to its part of the node's
// memory (KEP-2400).
func (n *Node) swap(pod *v1.Pod, c *v1.Container) int64 {
	request, limit := c.Resources.Requests[v1.ResourceMemory], c.Resources.Limits[v1.ResourceMemory]
	switch {
	case !n.LimitedSwap, podfacts.IsCritical(pod), podfacts.QOSClass(pod) != v1.PodQOSBurstable:
		return 0
	case request.Cmp(limit) == 0, n.MemoryCapacity <= 0, request.Value() > n.MemoryCapacity:
		return 0
	}
	return int64(float64(request.Value()) / float64(n.MemoryCapacity) * float64(n.SwapCapacity))
}

const memoryPage = 4096

// setMemoryQoS throttles a container before it reaches its limit, and protects its request
// (KEP-2570).
func (n *Node) setMemoryQoS(r *runtimeapi.LinuxContainerResources, pod *v1.Pod, c *v1.Container) {
	if !n.MemoryQoS.Enabled || !n.CgroupV2 {
		return
	}
	requestQ, limitQ := c.Resources.Requests[v1.ResourceMemory], c.Resources.Limits[v1.ResourceMemory]
	request, limit := requestQ.Value(), limitQ.Value()
	switch {
	case request == 0 || !n.MemoryQoS.TieredReservation:
		unify(r, "memory.min", 0)
		unify(r, "memory.low", 0)
	case podfacts.QOSClass(pod) == v1.PodQOSGuaranteed:
		unify(r, "memory.min", request)
	default:
		unify(r, "memory.low", request)
	}
	if request == limit {
		return
	}
	if limit == 0 {
		allocatable := n.Allocatable[v1.ResourceMemory]
		limit = allocatable.Value()
	}
	high := float64(request) + float64(limit-request)*n.MemoryQoS.ThrottlingFactor
	if pages := int64(math.Floor(high/memoryPage)) * memoryPage; pages > request {
		unify(r, "memory.high", pages)
	}
}

// OOM scores: the kernel kills the highest first.
const (
	oomGuaranteed   = -997
	oomBestEffort   = 1000
	minOOMBurstable = 1000 + oomGuaranteed
)

// oomScore returns the OOM score of a container: the larger its share of the node's memory, the
// lower.
func oomScore(pod *v1.Pod, c *v1.Container, capacity int64) int64 {
	if podfacts.IsNodeCritical(pod) {
		return oomGuaranteed
	}
	switch podfacts.QOSClass(pod) {
	case v1.PodQOSGuaranteed:
		return oomGuaranteed
	case v1.PodQOSBestEffort:
		return oomBestEffort
	}
	request := memoryRequest(c)
	if isSidecarOf(pod, c) { // a sidecar must not be killed before the containers that it serves
		request = max(request, leastRequest(pod))
	}
	score := int64(oomBestEffort)
	if capacity > 0 {
		request = min(request, capacity) + min(unclaimed(pod), capacity) // the bounds prevent an overflow
		score -= 1000 * request / capacity
	}
	return min(max(score, minOOMBurstable), oomBestEffort-1)
}

func memoryRequest(c *v1.Container) int64 {
	q := c.Resources.Requests[v1.ResourceMemory]
	return q.Value()
}

// leastRequest returns the smallest memory request of a regular container.
func leastRequest(pod *v1.Pod) int64 {
	var least int64
	for i := range pod.Spec.Containers {
		if request := memoryRequest(&pod.Spec.Containers[i]); i == 0 || request < least {
			least = request
		}
	}
	return least
}

func isSidecarOf(pod *v1.Pod, c *v1.Container) bool {
	if !podfacts.IsSidecar(c) {
		return false
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == c.Name {
			return true
		}
	}
	return false
}

// unclaimed returns one container's even share of the pod-level memory request that exceeds the
// sum of the containers (KEP-2837).
func unclaimed(pod *v1.Pod) int64 {
	containers := int64(len(pod.Spec.Containers) + len(pod.Spec.InitContainers))
	if pod.Spec.Resources == nil || containers == 0 {
		return 0
	}
	whole, ok := pod.Spec.Resources.Requests[v1.ResourceMemory]
	if !ok {
		return 0
	}
	claimed, _ := aggregate(pod, v1.ResourceMemory, requestOnly)
	return max(whole.Value()-claimed, 0) / containers
}

func requestOnly(r *v1.ResourceRequirements) (resource.Quantity, bool) {
	q, ok := r.Requests[v1.ResourceMemory]
	return q, ok
}
