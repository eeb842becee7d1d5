package node

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzCompute checks for any facts and any previous status: the same facts applied again change
// nothing; later facts with the same content change only heartbeats; transition times change
// exactly with their conditions' status; allocatable resources do not exceed the capacity; and
// the inputs are not changed.
func FuzzCompute(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed*7)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		old, facts := randomStatus(r), randomFacts(r)
		before := old.DeepCopy()

		once := Compute(old, facts)
		require.Equal(t, before, old)
		require.True(t, equality.Semantic.DeepEqual(once, Compute(once, facts)))

		later := facts
		later.Now = facts.Now.Add(time.Duration(1+r.IntN(1000)) * time.Second)
		again := Compute(once, later)
		require.False(t, Changed(once, again))
		require.Empty(t, Events("n", once, again))

		for _, kind := range []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
			was, is := Condition(old, kind), Condition(once, kind)
			if facts.Pressure == nil && kind != v1.NodeReady {
				require.Equal(t, was, is)
				continue
			}
			if was != nil && was.Status == is.Status && !was.LastTransitionTime.IsZero() {
				require.True(t, was.LastTransitionTime.Equal(&is.LastTransitionTime))
			} else {
				require.Equal(t, facts.Now.Unix(), is.LastTransitionTime.Unix())
			}
		}
		for name, have := range once.Allocatable {
			capacity, ok := once.Capacity[name]
			require.True(t, ok || facts.Machine == nil)
			require.True(t, !ok || have.Cmp(capacity) <= 0)
			require.GreaterOrEqual(t, have.Sign(), 0)
		}
	})
}

func randomFacts(r *rand.Rand) Facts {
	f := whole(at(r.IntN(1000)))
	for _, forget := range []func(){
		func() { f.Machine = nil }, func() { f.Versions = nil }, func() { f.Addresses = nil }, func() { f.Images = nil },
		func() { f.Handlers = nil }, func() { f.Features = nil }, func() { f.Pressure = nil }, func() { f.VolumesInUse = nil },
		func() { f.Pressure = &Pressure{Memory: true, PID: true} }, func() { f.NotReady = []string{"down"} },
		func() {
			f.Machine = &Machine{Cores: int64(r.IntN(9)), Memory: r.Int64N(1 << 40), HugePages: map[int64]int64{1 << 30: r.Int64N(1 << 40)}}
		},
		func() { f.Plugins = map[v1.ResourceName]Amount{"example.com/a": {r.Int64N(9) - 2, r.Int64N(9) - 2}} },
		func() {
			f.Reserved = v1.ResourceList{"cpu": *resource.NewMilliQuantity(r.Int64N(9000), resource.DecimalSI)}
		},
		func() { f.MaxImages, f.MaxPods, f.PodsPerCore = r.IntN(5)-1, r.Int64N(9)-1, r.Int64N(9) },
	} {
		if r.IntN(3) == 0 {
			forget()
		}
	}
	return f
}

func randomStatus(r *rand.Rand) *v1.NodeStatus {
	status := &v1.NodeStatus{}
	if r.IntN(4) > 0 {
		status = Compute(nil, randomFacts(r))
	}
	kinds := []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, "Other"}
	states := []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown, ""}
	for range r.IntN(4) {
		c := v1.NodeCondition{Type: kinds[r.IntN(len(kinds))], Status: states[r.IntN(len(states))]}
		if r.IntN(2) == 0 {
			c.LastTransitionTime = metav1.NewTime(at(-r.IntN(1000)).Truncate(time.Second))
		}
		status.Conditions = append(status.Conditions, c)
	}
	if r.IntN(2) == 0 && status.Capacity != nil {
		status.Capacity["hugepages-64Ki"], status.Capacity["example.com/b"] = resource.MustParse("1Mi"), resource.MustParse("2")
	}
	return status
}
