package shutdown

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/podwright/podwright/internal/fields"
)

// criticalPriority is the lowest priority of critical pods.
const criticalPriority = 2_000_000_000

// Period is the time for pods in a range of priorities. The range begins at Priority and ends
// below that of the next Period.
type Period struct {
	Priority int32
	// Grace is the time for the group's pods and volumes in whole seconds. If the pods need all of
	// it, the volumes get another second.
	Grace time.Duration
}

// Periods returns the two groups for shutdownGracePeriod and shutdownGracePeriodCriticalPods:
// critical is the last part of total, reserved for critical pods. It returns nil if total is 0 or
// shorter than critical. Such a node has no graceful shutdown and needs no Manager; New fails
// without periods.
func Periods(total, critical time.Duration) []Period {
	if total <= 0 || critical > total {
		return nil
	}
	return []Period{{Priority: 0, Grace: total - critical}, {Priority: criticalPriority, Grace: critical}}
}

// Total returns the sum of all periods, the required delay of the machine. It does not include
// the seconds for the volumes of pods that need their whole period.
func Total(periods []Period) (sum time.Duration) {
	for _, p := range periods {
		sum += p.Grace
	}
	return sum
}

func check(f *fields.Check, periods []Period) {
	seen := map[int32]bool{}
	for i, p := range periods {
		fields.Number(f, fmt.Sprintf("Periods[%d].Grace", i), &p.Grace, 0)
		if seen[p.Priority] {
			f.Refuse("Periods[%d].Priority: %d occurs twice", i, p.Priority)
		}
		seen[p.Priority] = true
	}
}

// Group is the set of pods that end in one period.
type Group struct {
	Period
	Pods []*v1.Pod
}

// Groups assigns pods to periods, in the order in which they end. Pods below the lowest period
// belong to the lowest one. A pod without priority has 0. Groups without pods are omitted.
func Groups(periods []Period, pods []*v1.Pod) []Group {
	if len(periods) == 0 {
		return nil
	}
	groups := make([]Group, 0, len(periods))
	for _, p := range periods {
		groups = append(groups, Group{Period: p})
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, pod := range pods {
		g := &groups[0]
		for i := range groups {
			if groups[i].Priority <= corev1.PodPriority(pod) {
				g = &groups[i]
			}
		}
		g.Pods = append(g.Pods, pod)
	}
	return slices.DeleteFunc(groups, func(g Group) bool { return len(g.Pods) == 0 })
}

// Seconds returns the grace period of a pod: its own if it is shorter than the group's.
func (p Period) Seconds(pod *v1.Pod) int64 {
	seconds := int64(p.Grace / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && *own < seconds {
		return max(*own, 0)
	}
	return seconds
}
