package eviction

import (
	"cmp"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/podwright/podwright/internal/podfacts"
)

// rated is a pod with its sort keys.
type rated struct {
	pod        *v1.Pod
	unmeasured bool
	exceeds    bool
	priority   int32
	excess     int64 // usage beyond the request
}

// chooseVictim returns the first pod to evict for a signal, or nil if all pods are critical. Of equal
// pods it returns the first.
func chooseVictim(s Signal, pods []*v1.Pod, u Usage) *v1.Pod {
	var out rated
	for _, pod := range pods {
		if podfacts.IsCritical(pod) {
			continue
		}
		if r := sortKeys(s, pod, u); out.pod == nil || compare(r, out) < 0 {
			out = r
		}
	}
	return out.pod
}

// sortKeys computes the sort keys of a pod. For inodes it subtracts the request in bytes, as upstream
// does. Processes have no requests, so no pod exceeds one, and an unmeasured pod counts as having
// no processes.
func sortKeys(s Signal, pod *v1.Pod, u Usage) rated {
	r := rated{pod: pod, priority: corev1.PodPriority(pod)}
	used, measured := podUse(s, u.Pods[pod.UID], u.Disks)
	if s == PIDAvailable {
		r.excess = signed(used)
		return r
	}
	name := v1.ResourceEphemeralStorage
	if s.Resource() == v1.ResourceMemory {
		name = v1.ResourceMemory
	}
	request, _ := podfacts.Request(pod, name)
	r.unmeasured = !measured
	r.excess = signed(used) - podfacts.Amount(name, request)
	r.exceeds = r.excess > 0
	return r
}

// podUse returns the pod's usage of the signal's resource.
func podUse(s Signal, u PodUsage, disks Disks) (uint64, bool) {
	switch s.Resource() {
	case v1.ResourceMemory:
		return available(u.Memory)
	case resourcePIDs:
		return available(u.Processes)
	case resourceInodes:
		return u.disk(partsOf(s, disks), inodesOf)
	default:
		return u.disk(partsOf(s, disks), bytesOf)
	}
}

func available(n *uint64) (uint64, bool) {
	if n == nil {
		return 0, false
	}
	return *n, true
}

func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// compare orders unmeasured pods first, then pods above their request, then lower priority, then
// larger excess.
func compare(a, b rated) int {
	return cmp.Or(trueFirst(a.unmeasured, b.unmeasured), trueFirst(a.exceeds, b.exceeds), cmp.Compare(a.priority, b.priority), cmp.Compare(b.excess, a.excess))
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
