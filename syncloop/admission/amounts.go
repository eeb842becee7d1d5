package admission

import (
	"math"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/podwright/podwright/internal/podfacts"
)

// amounts are quantities by resource: thousandths for CPU, else the resource's unit. They are not
// negative, and saturate at the largest int64.
type amounts map[v1.ResourceName]int64

func requested(pod *v1.Pod) amounts {
	out := amounts{v1.ResourcePods: 1}
	for name, q := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
		if n := podfacts.Amount(name, q); n > 0 && name != v1.ResourcePods {
			out[name] = n
		}
	}
	return out
}

func saturatingSum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// names returns the resources in a fixed order: pods, cpu, memory, ephemeral storage, then others
// by name.
func (a amounts) names() []v1.ResourceName {
	var out []v1.ResourceName
	for name := range a {
		out = append(out, name)
	}
	first := []v1.ResourceName{v1.ResourcePods, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}
	rank := func(name v1.ResourceName) int {
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortFunc(out, func(x, y v1.ResourceName) int {
		if d := rank(x) - rank(y); d != 0 {
			return d
		}
		return strings.Compare(string(x), string(y))
	})
	return out
}

// ledger caches the requests of the active pods. Computing one takes about a microsecond.
type ledger struct {
	mu   sync.Mutex
	pods map[*v1.Pod]amounts // keyed by pointer, because pods are immutable
}

// of returns the requests of each active pod and drops the cached requests of others.
func (l *ledger) of(active []*v1.Pod) map[*v1.Pod]amounts {
	now := make(map[*v1.Pod]amounts, len(active))
	for _, pod := range active {
		of, known := l.pods[pod]
		if !known {
			of = requested(pod)
		}
		now[pod] = of
	}
	l.pods = now
	return now
}
