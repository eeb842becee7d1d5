package eviction

import (
	"cmp"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/podwright/podwright/internal/podfacts"
)

// rated is a pod with what it is ranked by.
type rated struct {
	pod        *v1.Pod
	unmeasured bool
	exceeds    bool
	priority   int32
	over       int64 // usage beyond the request
}

// worst is who has to go first for a signal, nil if all pods are critical. Among equals
// it is the first.
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

// rate finds out what a pod is ranked by. Requests of bytes are taken from counts of
// inodes as well: that is how nodes have always ranked. Processes have no requests, so
// none exceeds them, and who is not measured counts as one that has none.
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

// podUse is what a pod uses of what the signal is about.
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

// compare puts first: who is not measured, who exceeds the request, who has the lower
// priority, who exceeds by more.
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
