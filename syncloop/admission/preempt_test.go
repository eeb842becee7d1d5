package admission

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

func TestPreemptable(t *testing.T) {
	plain, low, high := newPod("p", nil), newPod("l", nil, withPriority(5)), newPod("h", nil, withPriority(2_000_001_000))
	crit, manifest := newPod("c", nil, critical), newPod("m", nil, static)
	for _, tt := range []struct {
		by, other *v1.Pod
		want      bool
	}{{crit, plain, true}, {crit, low, true}, {crit, high, false}, {high, crit, true}, {crit, crit, false}, {manifest, plain, true}, {manifest, low, true}, {manifest, crit, false}, {crit, manifest, false}, {low, plain, false}, {plain, plain, false}} {
		require.Equal(t, tt.want, preemptable(tt.by, tt.other), "%s, %s", tt.by.Name, tt.other.Name)
	}
}

func TestVictims(t *testing.T) {
	crit := newPod("crit", list("cpu", "1"), critical)
	for name, tt := range map[string]struct {
		active  []*v1.Pod
		missing []Shortage
		want    []string
		err     string
	}{
		"N11 the pod that just suffices": {
			active:  []*v1.Pod{newPod("half", list("cpu", "500m")), newPod("one", list("cpu", "1")), newPod("four", list("cpu", "4")), newPod("none", nil)},
			missing: []Shortage{{Name: "cpu", Requested: 1000}}, want: []string{"one"},
		},
		"BestEffort for a shortage of pods": {active: []*v1.Pod{newPod("b", list("cpu", "1")), newPod("none", nil)}, missing: []Shortage{{Name: "pods", Requested: 1}}, want: []string{"none"}},
		"unknown class before Burstable": {
			active:  []*v1.Pod{newPod("b", list("cpu", "1")), newPod("odd", list("cpu", "2"), func(p *v1.Pod) { p.Status.QOSClass = "Odd" })},
			missing: []Shortage{{Name: "cpu", Requested: 1000}}, want: []string{"odd"},
		},
		"Burstable before Guaranteed": {active: []*v1.Pod{newPod("g", list("cpu", "1", "memory", "1"), guaranteed), newPod("b", list("cpu", "2"))}, missing: []Shortage{{Name: "cpu", Requested: 1000}}, want: []string{"b"}},
		"Guaranteed if Burstable does not suffice": {
			active:  []*v1.Pod{newPod("g", list("cpu", "2", "memory", "1"), guaranteed), newPod("b", list("cpu", "1"))},
			missing: []Shortage{{Name: "cpu", Requested: 2000}}, want: []string{"g"},
		},
		"both if neither suffices": {
			active:  []*v1.Pod{newPod("g", list("cpu", "2", "memory", "1"), guaranteed), newPod("b", list("cpu", "1"))},
			missing: []Shortage{{Name: "cpu", Requested: 3000}}, want: []string{"g", "b"},
		},
		"equal distance: less memory, then less cpu": {
			active:  []*v1.Pod{newPod("x", list("cpu", "3", "memory", "9")), newPod("y", list("cpu", "3", "memory", "8")), newPod("z", list("cpu", "2", "memory", "8"))},
			missing: []Shortage{{Name: "cpu", Requested: 1000}}, want: []string{"z"},
		},
		"closest in all missing resources": {
			active:  []*v1.Pod{newPod("cpu", list("cpu", "2")), newPod("rest", list("memory", "100")), newPod("both", list("cpu", "900m", "memory", "900"))},
			missing: []Shortage{{Name: "cpu", Requested: 2000}, {Name: "memory", Requested: 1000}}, want: []string{"both", "cpu", "rest"},
		},
		"not enough": {active: []*v1.Pod{newPod("b", list("cpu", "1")), newPod("other", list("cpu", "9"), critical)}, missing: []Shortage{{Name: "cpu", Requested: 2500}}, err: "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 1500), ]"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chooseVictims(crit, tt.active, tt.missing)
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.ElementsMatch(t, tt.want, names(got))
		})
	}
}

// randomPreemption returns a critical pod, a full node and the shortages.
func randomPreemption(seed uint64) (*v1.Pod, []*v1.Pod, []Shortage) {
	r := rand.New(rand.NewPCG(seed, 1))
	var active []*v1.Pod
	for i := range 2 + r.IntN(9) {
		active = append(active, randomPod(r, i))
	}
	missing := []Shortage{{Name: "cpu", Requested: int64(100 * (1 + r.IntN(30)))}}
	if r.IntN(2) == 0 {
		missing = append(missing, Shortage{Name: "memory", Requested: int64(10+r.IntN(300)) << 20})
	}
	if r.IntN(4) == 0 {
		missing = append(missing, Shortage{Name: "pods", Requested: 1})
	}
	return newPod("crit", nil, critical), active, missing
}

// In any scene only preemptable pods end, they suffice, and a victim of a higher class ends only
// if all lower classes do not suffice.
func TestVictimsAreMinimal(t *testing.T) {
	order := []v1.PodQOSClass{v1.PodQOSBestEffort, v1.PodQOSBurstable, v1.PodQOSGuaranteed}
	for seed := range uint64(1000) {
		pod, active, missing := randomPreemption(seed)
		enough := func(removed []*v1.Pod) bool {
			for _, m := range missing {
				n := m.Requested
				for _, p := range removed {
					n -= requested(p)[m.Name]
				}
				if n > 0 {
					return false
				}
			}
			return true
		}
		may := slices.DeleteFunc(slices.Clone(active), func(p *v1.Pod) bool { return !preemptable(pod, p) })
		victims, err := chooseVictims(pod, active, missing)
		require.Equal(t, enough(may), err == nil, "seed %d", seed)
		if err != nil {
			continue
		}
		require.Subset(t, names(may), names(victims), "seed %d", seed)
		require.True(t, enough(victims), "seed %d", seed)
		for _, v := range victims {
			lesser := slices.DeleteFunc(slices.Clone(may), func(p *v1.Pod) bool {
				return slices.Index(order, podfacts.QOSClass(p)) >= slices.Index(order, podfacts.QOSClass(v))
			})
			require.False(t, enough(lesser), "seed %d: %s", seed, v.Name)
		}
	}
}
