package admission

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
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
		require.Equal(t, tt.want, Preemptable(tt.by, tt.other), "%s, %s", tt.by.Name, tt.other.Name)
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
		"N11 the one that is just enough": {
			active:  []*v1.Pod{newPod("half", list("cpu", "500m")), newPod("one", list("cpu", "1")), newPod("four", list("cpu", "4")), newPod("none", nil)},
			missing: []Shortage{{Name: "cpu", Requested: 1000}}, want: []string{"one"},
		},
		"BestEffort alone for a place": {active: []*v1.Pod{newPod("b", list("cpu", "1")), newPod("none", nil)}, missing: []Shortage{{Name: "pods", Requested: 1}}, want: []string{"none"}},
		"one of a class that nobody knows before Burstable": {
			active:  []*v1.Pod{newPod("b", list("cpu", "1")), newPod("odd", list("cpu", "2"), func(p *v1.Pod) { p.Status.QOSClass = "Odd" })},
			missing: []Shortage{{Name: "cpu", Requested: 1000}}, want: []string{"odd"},
		},
		"Burstable before Guaranteed": {active: []*v1.Pod{newPod("g", list("cpu", "1", "memory", "1"), guaranteed), newPod("b", list("cpu", "2"))}, missing: []Shortage{{Name: "cpu", Requested: 1000}}, want: []string{"b"}},
		"Guaranteed for what Burstable ones do not have": {
			active:  []*v1.Pod{newPod("g", list("cpu", "2", "memory", "1"), guaranteed), newPod("b", list("cpu", "1"))},
			missing: []Shortage{{Name: "cpu", Requested: 2000}}, want: []string{"g"},
		},
		"both for as much": {
			active:  []*v1.Pod{newPod("g", list("cpu", "2", "memory", "1"), guaranteed), newPod("b", list("cpu", "1"))},
			missing: []Shortage{{Name: "cpu", Requested: 3000}}, want: []string{"g", "b"},
		},
		"of equals the smaller in memory, then in cpu": {
			active:  []*v1.Pod{newPod("x", list("cpu", "3", "memory", "9")), newPod("y", list("cpu", "3", "memory", "8")), newPod("z", list("cpu", "2", "memory", "8"))},
			missing: []Shortage{{Name: "cpu", Requested: 1000}}, want: []string{"z"},
		},
		"closest in all that is missing": {
			active:  []*v1.Pod{newPod("cpu", list("cpu", "2")), newPod("rest", list("memory", "100")), newPod("both", list("cpu", "900m", "memory", "900"))},
			missing: []Shortage{{Name: "cpu", Requested: 2000}, {Name: "memory", Requested: 1000}}, want: []string{"both", "cpu", "rest"},
		},
		"not enough": {active: []*v1.Pod{newPod("b", list("cpu", "1")), newPod("other", list("cpu", "9"), critical)}, missing: []Shortage{{Name: "cpu", Requested: 2500}}, err: "preemption: 1 pods may be ended for this one, which would still lack cpu: 1500"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Victims(crit, tt.active, tt.missing)
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.ElementsMatch(t, tt.want, names(got))
		})
	}
}

// scene is a full node and a critical pod to which something is missing.
func scene(seed uint64) (*v1.Pod, []*v1.Pod, []Shortage) {
	r := rand.New(rand.NewPCG(seed, 1))
	var active []*v1.Pod
	for i := range 2 + r.IntN(9) {
		active = append(active, drawPod(r, i))
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

// A second implementation of the same rules, word by word and without any care for speed,
// chooses the same pods.
func TestVictimsTwice(t *testing.T) {
	for seed := range uint64(3000) {
		pod, active, missing := scene(seed)
		got, err := Victims(pod, active, missing)
		want, ok := plainVictims(pod, active, missing)
		require.Equal(t, ok, err == nil, "seed %d", seed)
		if ok {
			require.Equal(t, names(want), names(got), "seed %d", seed)
		}
	}
}

func plainVictims(pod *v1.Pod, active []*v1.Pod, missing []Shortage) (out []*v1.Pod, ok bool) {
	lacks := func(gone ...*v1.Pod) map[v1.ResourceName]float64 {
		left := map[v1.ResourceName]float64{}
		for _, m := range missing {
			n := float64(m.Requested)
			for _, g := range gone {
				n -= float64(requested(g)[m.Name])
			}
			if n > 0 {
				left[m.Name] = n
			}
		}
		return left
	}
	class := func(c v1.PodQOSClass) (of []*v1.Pod) {
		for _, p := range active {
			if Preemptable(pod, p) && podfacts.QOSClass(p) == c {
				of = append(of, p)
			}
		}
		return of
	}
	g, b, e := class(v1.PodQOSGuaranteed), class(v1.PodQOSBurstable), class(v1.PodQOSBestEffort)
	if len(lacks(slices.Concat(g, b, e)...)) > 0 {
		return nil, false
	}
	take := func(from, lesser []*v1.Pod) {
		from = slices.Clone(from)
		for {
			need := lacks(slices.Concat(out, lesser)...)
			if len(need) == 0 {
				return
			}
			far := func(p *v1.Pod) (sum float64) {
				of := requested(p)
				for _, name := range []v1.ResourceName{"pods", "cpu", "memory"} {
					if n := need[name]; n > 0 {
						part := max(0, n-float64(of[name])) / n
						sum += part * part
					}
				}
				return sum
			}
			i := 0
			for k, p := range from {
				q := from[i]
				switch {
				case far(p) != far(q):
					if far(p) < far(q) {
						i = k
					}
				case requested(p)["memory"] != requested(q)["memory"]:
					if requested(p)["memory"] < requested(q)["memory"] {
						i = k
					}
				case requested(p)["cpu"] < requested(q)["cpu"]:
					i = k
				}
			}
			out = append(out, from[i])
			from = slices.Delete(from, i, i+1)
		}
	}
	take(g, slices.Concat(b, e))
	take(b, e)
	take(e, nil)
	return out, true
}

var update = flag.Bool("update", false, "write testdata")

// Where ending fewer pods would have done: the price of sparing better classes, and of
// taking the closest one each time.
func TestFewer(t *testing.T) {
	var list strings.Builder
	scenes := 0
	for seed := range uint64(400) {
		pod, active, missing := scene(seed)
		victims, err := Victims(pod, active, missing)
		if err != nil {
			continue
		}
		scenes++
		if least := fewest(pod, active, missing); least < len(victims) {
			fmt.Fprintf(&list, "scene %d: %d pods end, %d would do\n", seed, len(victims), least)
		}
	}
	text := fmt.Sprintf("of %d scenes\n%s", scenes, list.String())
	const file = "testdata/fewer.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// fewest tries all sets.
func fewest(pod *v1.Pod, active []*v1.Pod, missing []Shortage) int {
	var may []candidate
	for _, p := range active {
		if Preemptable(pod, p) {
			may = append(may, candidate{p, requested(p)})
		}
	}
	need := amounts{}
	for _, m := range missing {
		need[m.Name] = m.Requested
	}
	best := len(may)
	for set := range 1 << len(may) {
		var gone []candidate
		for i := range may {
			if set>>i&1 == 1 {
				gone = append(gone, may[i])
			}
		}
		if len(gone) < best && len(need.without(gone)) == 0 {
			best = len(gone)
		}
	}
	return best
}
