package node

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const defaultMaxPods = 110

// SetMachine sets the identity and the capacity of the machine. Resources of other components
// stay. Unsupported sizes of huge pages are removed.
func SetMachine(status *v1.NodeStatus, facts *Facts) {
	m := facts.Machine
	if m == nil {
		return
	}
	info := &status.NodeInfo
	info.MachineID, info.SystemUUID, info.BootID = m.ID, m.SystemUUID, m.BootID
	if info.Swap = nil; m.Swap > 0 {
		swap := m.Swap
		info.Swap = &v1.NodeSwapStatus{Capacity: &swap}
	}
	if status.Capacity == nil {
		status.Capacity = v1.ResourceList{}
	}
	for name := range status.Capacity {
		if isHugePages(name) {
			delete(status.Capacity, name)
		}
	}
	for size, bytes := range m.HugePages {
		status.Capacity[hugePages(size)] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	status.Capacity[v1.ResourceCPU] = *resource.NewQuantity(m.Cores, resource.DecimalSI)
	status.Capacity[v1.ResourceMemory] = *resource.NewQuantity(m.Memory, resource.BinarySI)
	status.Capacity[v1.ResourcePods] = *resource.NewQuantity(podLimit(facts), resource.DecimalSI)
	if m.Storage > 0 && !facts.NoLocalStorage {
		status.Capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(m.Storage, resource.BinarySI)
	}
}

func podLimit(facts *Facts) int64 {
	limit := max(0, cmp.Or(facts.MaxPods, defaultMaxPods))
	if facts.PodsPerCore > 0 {
		limit = min(limit, facts.PodsPerCore*facts.Machine.Cores)
	}
	return limit
}

// hugePages returns the resource name of huge pages of a size in bytes.
func hugePages(size int64) v1.ResourceName {
	return v1.ResourceName(v1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String())
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// setPlugins sets the capacity of the plugins' resources.
func setPlugins(status *v1.NodeStatus, facts *Facts) {
	for name, amount := range facts.Plugins {
		if status.Capacity == nil {
			status.Capacity = v1.ResourceList{}
		}
		status.Capacity[name] = *resource.NewQuantity(max(0, amount.Capacity), resource.DecimalSI)
	}
}

// SetAllocatable sets the allocatable resources: the capacity minus the reserved part. Memory is
// also reduced by huge pages, which have no other use. Resources of plugins have the plugins'
// values. The result is at least zero and at most the capacity.
func SetAllocatable(status *v1.NodeStatus, facts *Facts) {
	if status.Capacity == nil {
		return
	}
	status.Allocatable = status.Capacity.DeepCopy()
	for name, reserved := range facts.Reserved {
		take(status.Allocatable, name, reserved)
	}
	for name, bytes := range status.Capacity {
		if isHugePages(name) {
			take(status.Allocatable, v1.ResourceMemory, bytes)
		}
	}
	for name, amount := range facts.Plugins {
		status.Allocatable[name] = *resource.NewQuantity(max(0, min(amount.Allocatable, amount.Capacity)), resource.DecimalSI)
	}
}

// take subtracts an amount from a resource, if the list contains it. The result is at least zero.
func take(list v1.ResourceList, name v1.ResourceName, amount resource.Quantity) {
	left, ok := list[name]
	if !ok {
		return
	}
	if left.Sub(amount); left.Sign() < 0 {
		left = *resource.NewQuantity(0, left.Format)
	}
	list[name] = left
}

// ZeroExtended sets the amounts of all extended resources to zero. It is for a machine whose
// plugins have lost their state, for example after a new installation: no pods must arrive before
// the plugins are back.
func ZeroExtended(status *v1.NodeStatus) {
	for _, list := range []v1.ResourceList{status.Capacity, status.Allocatable} {
		for name := range list {
			if isExtended(name) {
				list[name] = *resource.NewQuantity(0, resource.DecimalSI)
			}
		}
	}
}

// isExtended reports whether a resource is an extended resource: its name has a domain other than
// Kubernetes' own.
func isExtended(name v1.ResourceName) bool {
	text := string(name)
	return strings.Contains(text, "/") && !strings.Contains(text, v1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(text, v1.DefaultResourceRequestsPrefix)
}
