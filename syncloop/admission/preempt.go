package admission

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// preemptable reports whether a critical pod may preempt another: one that is not critical or, if
// both have a priority, one with a lower priority.
func preemptable(critical, other *v1.Pod) bool {
	if !podfacts.IsCritical(critical) {
		return false
	}
	a, b := critical.Spec.Priority, other.Spec.Priority
	return !podfacts.IsCritical(other) || a != nil && b != nil && *a > *b
}

// chooseVictims chooses the active pods that end for a critical pod. It takes Guaranteed pods only
// as far as all Burstable and BestEffort pods do not suffice, then Burstable pods as far as all
// BestEffort pods do not suffice, then BestEffort pods for the rest. It returns an error if all
// preemptable pods do not suffice. It is pure.
func chooseVictims(pod *v1.Pod, active []*v1.Pod, missing []Shortage) ([]*v1.Pod, error) {
	need := amounts{}
	for _, s := range missing {
		need[s.Name] = s.Missing()
	}
	var guaranteed, burstable, bestEffort []candidate
	for _, other := range active {
		if !preemptable(pod, other) {
			continue
		}
		c := candidate{other, requested(other)}
		switch podfacts.QOSClass(other) {
		case v1.PodQOSGuaranteed:
			guaranteed = append(guaranteed, c)
		case v1.PodQOSBurstable:
			burstable = append(burstable, c)
		default: // includes unknown classes in a status
			bestEffort = append(bestEffort, c)
		}
	}
	all := slices.Concat(guaranteed, burstable, bestEffort)
	if missing := need.without(all); len(missing) > 0 {
		err := fmt.Errorf("no set of running pods found to reclaim resources: %v", missing)
		return nil, fmt.Errorf("preemption: error finding a set of pods to preempt: %w", err)
	}
	chosen := closest(guaranteed, need.without(burstable).without(bestEffort))
	chosen = append(chosen, closest(burstable, need.without(chosen).without(bestEffort))...)
	chosen = append(chosen, closest(bestEffort, need.without(chosen))...)
	victims := make([]*v1.Pod, len(chosen))
	for i, c := range chosen {
		victims[i] = c.pod
	}
	return victims, nil
}

type candidate struct {
	pod *v1.Pod
	of  amounts
}

// without returns the amounts that are missing after pods have ended.
func (a amounts) without(pods []candidate) amounts {
	remaining := amounts{}
	for name, n := range a {
		for _, c := range pods {
			n -= min(n, c.of[name])
		}
		if n > 0 {
			remaining[name] = n
		}
	}
	return remaining
}

// String has the upstream kubelet's format, with its comma at the end.
func (a amounts) String() string {
	text := "["
	for _, name := range a.names() {
		text += fmt.Sprintf("(res: %v, q: %d), ", name, a[name])
	}
	return text + "]"
}

// closest removes pods from a list that suffices until need is met. Each step takes the pod
// closest to the remaining need; at equal distance, the pod with less memory, then less cpu.
func closest(pods []candidate, need amounts) (chosen []candidate) {
	for len(need) > 0 {
		best := 0
		for i := range pods {
			if pods[i].before(pods[best], need) {
				best = i
			}
		}
		chosen = append(chosen, pods[best])
		need = need.without(pods[best : best+1])
		pods = slices.Delete(pods, best, best+1)
	}
	return chosen
}

func (c candidate) before(d candidate, need amounts) bool {
	return cmp.Or(
		cmp.Compare(c.distance(need), d.distance(need)),
		cmp.Compare(c.of[v1.ResourceMemory], d.of[v1.ResourceMemory]),
		cmp.Compare(c.of[v1.ResourceCPU], d.of[v1.ResourceCPU]),
	) < 0
}

// distance returns the sum over all resources of the square of the fraction that would remain
// missing.
func (c candidate) distance(need amounts) (sum float64) {
	for _, name := range need.names() {
		part := float64(need[name]-min(need[name], c.of[name])) / float64(need[name])
		sum += part * part
	}
	return sum
}
