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
	over       int64 // usage beyond the request
}

// worst returns the first pod to evict for a signal, or nil if all pods are critical. Of equal
// pods it returns the first.
func worst(s Signal, pods []*v1.Pod, u Usage) *v1.Pod {
	var out rated
	for _, pod := range pods {
		if podfacts.IsCritical(pod) {
			continue
		}
		if r := rate(s, pod, u); out.pod == nil || compare(r, out) < 0 {
			out = r
		}
	}
	return out.pod
}

// rate computes the sort keys of a pod. For inodes it subtracts the request in bytes, as upstream
// does. Processes have no requests, so no pod exceeds one, and an unmeasured pod counts as having
// no processes.
func rate(s Signal, pod *v1.Pod, u Usage) rated {
	r := rated{pod: pod, priority: corev1.PodPriority(pod)}
	used, known := podUse(s, u.Pods[pod.UID], u.Disks)
	if s == PIDAvailable {
		r.over = signed(used)
		return r
	}
	name := v1.ResourceEphemeralStorage
	if s.Resource() == v1.ResourceMemory {
		name = v1.ResourceMemory
	}
	request, _ := podfacts.Request(pod, name)
	r.unmeasured = !known
	r.over = signed(used) - podfacts.Amount(name, request)
	r.exceeds = r.over > 0
	return r
}

// podUse returns the pod's usage of the signal's resource.
func podUse(s Signal, u PodUsage, disks Disks) (uint64, bool) {
	switch s.Resource() {
	case v1.ResourceMemory:
		return known(u.Memory)
	case resourcePIDs:
		return known(u.Processes)
	case resourceInodes:
		return u.disk(partsOf(s, disks), inodesOf)
	default:
		return u.disk(partsOf(s, disks), bytesOf)
	}
}

func known(n *uint64) (uint64, bool) {
	if n == nil {
		return 0, false
	}
	return *n, true
}

func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// compare orders unmeasured pods first, then pods above their request, then lower priority, then
// larger excess.
func compare(a, b rated) int {
	return cmp.Or(first(a.unmeasured, b.unmeasured), first(a.exceeds, b.exceeds), cmp.Compare(a.priority, b.priority), cmp.Compare(b.over, a.over))
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
