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

// criticalPriority is where the priorities of critical pods begin.
const criticalPriority = 2_000_000_000

// Period is the time that pods of a range of priorities get. The range goes from
// Priority to below that of the next Period.
type Period struct {
	Priority int32
	// Grace is how long the pods have altogether, counted in whole seconds, and
	// then once more at most for their volumes.
	Grace time.Duration
}

// Periods are the two groups that stand for shutdownGracePeriod and
// shutdownGracePeriodCriticalPods: critical is the end of total that is kept for
// critical pods. A total of zero means that there is no graceful shutdown: nil.
func Periods(total, critical time.Duration) []Period {
	if total <= 0 || critical > total {
		return nil
	}
	return []Period{{Priority: 0, Grace: total - critical}, {Priority: criticalPriority, Grace: critical}}
}

// Total is how long the machine has to wait: the sum of all periods.
func Total(periods []Period) (sum time.Duration) {
	for _, p := range periods {
		sum += p.Grace
	}
	return sum
}

// check refuses periods that mean nothing.
func check(f *fields.Check, periods []Period) {
	seen := map[int32]bool{}
	for i, p := range periods {
		fields.Number(f, fmt.Sprintf("Periods[%d].Grace", i), &p.Grace, 0)
		if seen[p.Priority] {
			f.Refuse("Periods[%d].Priority occurs twice: %d", i, p.Priority)
		}
		seen[p.Priority] = true
	}
}

// Group are the pods that end together.
type Group struct {
	Period
	Pods []*v1.Pod
}

// Groups sorts pods into one group per period, in the order in which they end. A pod
// below the lowest period is in the lowest one; a pod without priority has 0. Groups
// without pods are left out: nobody waits for them.
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

// Seconds is the grace of a pod in this period: its own, if they are fewer than
// the group's.
func (p Period) Seconds(pod *v1.Pod) int64 {
	seconds := int64(p.Grace / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && *own < seconds {
		return max(*own, 0)
	}
	return seconds
}
