package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// preemptable tells whether a critical pod may end another one: one that is not critical,
// or of which both have a priority and the other one's is lower.
func preemptable(critical, other *v1.Pod) bool {
	if !podfacts.IsCritical(critical) {
		return false
	}
	a, b := critical.Spec.Priority, other.Spec.Priority
	return !podfacts.IsCritical(other) || a != nil && b != nil && *a > *b
}

// chooseVictims chooses the active pods that are to end for a critical one, to which so much is
// missing: the Guaranteed ones that it takes even if all Burstable and BestEffort pods
// went, then the Burstable ones that it takes even if all BestEffort ones went, then
// BestEffort ones for the rest. It is an error if all that may go are not enough. It is
// pure.
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
		default: // also what a status calls by a name that nobody knows
			bestEffort = append(bestEffort, c)
		}
	}
	all := slices.Concat(guaranteed, burstable, bestEffort)
	if left := need.without(all); len(left) > 0 {
		return nil, fmt.Errorf("preemption: %d pods may be ended for this one, which would still lack %s", len(all), left)
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

// candidate is a pod that may be ended.
type candidate struct {
	pod *v1.Pod
	of  amounts
}

// without is what is still needed once pods have ended.
func (a amounts) without(pods []candidate) amounts {
	left := amounts{}
	for name, n := range a {
		for _, c := range pods {
			n -= min(n, c.of[name])
		}
		if n > 0 {
			left[name] = n
		}
	}
	return left
}

func (a amounts) String() string {
	var parts []string
	for _, name := range a.names() {
		parts = append(parts, fmt.Sprintf("%s: %d", name, a[name]))
	}
	return strings.Join(parts, ", ")
}

// closest takes pods, which suffice, out of a list until nothing more is needed, always the
// one that comes closest to it; of equals the one that requests less memory, then less cpu.
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

// distance is the sum over all resources of the square of the part that would still be
// missing.
func (c candidate) distance(need amounts) (sum float64) {
	for _, name := range need.names() {
		part := float64(need[name]-min(need[name], c.of[name])) / float64(need[name])
		sum += part * part
	}
	return sum
}
