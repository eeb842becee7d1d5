package admission

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestShortages(t *testing.T) {
	has := list("pods", "3", "cpu", "2", "memory", "1Gi", "ephemeral-storage", "1Gi", "example.com/gpu", "2", "example.com/most", "9223372036854775807")
	for name, tt := range map[string]struct {
		pod    *v1.Pod
		active []*v1.Pod
		want   []string
	}{
		"fits": {pod: newPod("a", list("cpu", "2", "memory", "1Gi", "example.com/gpu", "2"))},
		"N10 cpu": {pod: newPod("a", list("cpu", "501m")), active: []*v1.Pod{newPod("b", list("cpu", "1500m"))},
			want: []string{"Node didn't have enough resource: cpu, requested: 501, used: 1500, capacity: 2000"}},
		"pods": {pod: newPod("a", nil), active: []*v1.Pod{newPod("b", nil), newPod("c", nil), newPod("d", nil)},
			want: []string{"Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"}},
		"itself does not count": {pod: newPod("a", list("cpu", "2")), active: []*v1.Pod{newPod("a", list("cpu", "2"))}},
		"all shortages in order": {pod: newPod("a", list("memory", "2Gi", "cpu", "3", "example.com/gpu", "3", "ephemeral-storage", "2Gi")), want: []string{
			"Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000",
			"Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824",
			"Node didn't have enough resource: ephemeral-storage, requested: 2147483648, used: 0, capacity: 1073741824",
			"Node didn't have enough resource: example.com/gpu, requested: 3, used: 0, capacity: 2",
		}},
		"extended resource of another node": {pod: newPod("a", list("example.com/other", "1"))},
		"hugepages that the node lacks": {pod: newPod("a", list("hugepages-2Mi", "2Mi")),
			want: []string{"Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0"}},
		"init containers and overhead": {pod: newPod("a", list("cpu", "100m"), func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("cpu", "1900m")}}}
			p.Spec.Overhead = list("cpu", "200m")
		}), want: []string{"Node didn't have enough resource: cpu, requested: 2100, used: 0, capacity: 2000"}},
		"resources of the pod": {pod: newPod("a", list("cpu", "100m"), func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "3")}
		}), want: []string{"Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000"}},
		"very large requests": {pod: newPod("a", list("cpu", "9E", "memory", "10000000000000E")), active: []*v1.Pod{newPod("b", list("memory", "10000000000000E"))}, want: []string{
			"Node didn't have enough resource: cpu, requested: 9223372036854775807, used: 0, capacity: 2000",
			"Node didn't have enough resource: memory, requested: 9223372036854775807, used: 9223372036854775807, capacity: 1073741824",
		}},
		"sum above the maximum": {pod: newPod("a", list("example.com/most", "5E")), active: []*v1.Pod{newPod("b", list("example.com/most", "5E"))},
			want: []string{"Node didn't have enough resource: example.com/most, requested: 5000000000000000000, used: 5000000000000000000, capacity: 9223372036854775807"}},
		"each pod counts, also without a UID": {pod: newPod("a", list("cpu", "1")), active: []*v1.Pod{newPod("", list("cpu", "1")), newPod("", list("cpu", "500m"))},
			want: []string{"Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"}},
		"negative requests count as 0": {pod: newPod("a", list("cpu", "2")), active: []*v1.Pod{newPod("b", list("cpu", "-1")), newPod("c", list("cpu", "1m"))},
			want: []string{"Node didn't have enough resource: cpu, requested: 2000, used: 1, capacity: 2000"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range Shortages(tt.pod, tt.active, has) {
				got = append(got, s.String())
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestFit(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Config.Allocatable is required")
	fit, err := New(Config{Allocatable: node(list("cpu", "2"))})
	require.NoError(t, err)
	require.NoError(t, fit.Admit(newPod("a", list("cpu", "2")), nil))

	one := newPod("b", list("cpu", "1"))
	err = fit.Admit(newPod("a", list("cpu", "2")), []*v1.Pod{one})
	require.Equal(t, &syncloop.Rejection{Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 2000, used: 1000, capacity: 2000"}, err)
	require.IsType(t, &syncloop.Rejection{}, fit.Admit(newPod("a", list("cpu", "2"), critical), []*v1.Pod{one}), "no preemption without Config.Preempt")

	leaving(one)
	err = fit.Admit(newPod("a", list("cpu", "2")), []*v1.Pod{one})
	require.ErrorContains(t, err, "waiting for terminating pods: Node didn't have enough resource: cpu")
	require.NotErrorAs(t, err, new(*syncloop.Rejection))

	old, renewed := newPod("s", list("cpu", "2"), static), newPod("s", list("cpu", "2"), static)
	renewed.UID = "new"
	require.NoError(t, fit.Admit(renewed, []*v1.Pod{old}), "a static pod replaces its older version")
	require.Error(t, fit.Admit(renewed, []*v1.Pod{newPod("s", list("cpu", "2"))}), "a static pod does not replace an API pod")
	old.Name = "t"
	require.Error(t, fit.Admit(renewed, []*v1.Pod{old}))
}

// A waiting critical pod reserves its resources while it is desired and can get them.
func TestWaitingPodReservesResources(t *testing.T) {
	small, victim, crit := newPod("small", list("cpu", "1")), newPod("victim", list("cpu", "2")), newPod("crit", list("cpu", "2"), critical)
	for name, wanted := range map[string]func(types.UID) bool{"by default": nil, "wanted": func(types.UID) bool { return true }, "gone": func(types.UID) bool { return false }} {
		fit, err := New(Config{Allocatable: node(list("cpu", "2")), Preempt: func(*v1.Pod, []*v1.Pod, []Shortage) {}, Wanted: wanted})
		require.NoError(t, err)
		require.ErrorContains(t, fit.Admit(crit, []*v1.Pod{victim}), "waiting for 1 preempted pods", name)
		err = fit.Admit(small, nil)
		if name == "gone" {
			require.NoError(t, err)
			require.Empty(t, fit.waiting)
			continue
		}
		require.Equal(t, "OutOfcpu", reasonOf(t, err), name)
		other := newPod("other", list("cpu", "2"), critical)
		require.Equal(t, "UnexpectedAdmissionError", reasonOf(t, fit.Admit(crit, []*v1.Pod{other})), "no preemptable pod remains")
		require.NoError(t, fit.Admit(small, nil))
	}
}

// A critical pod waits until its victims have stopped, and no other pod gets their
// resources.
func TestCriticalPodWaitsForVictims(t *testing.T) {
	ended, removed := map[types.UID]bool{}, map[types.UID]bool{}
	fit, err := New(Config{
		Allocatable: node(list("cpu", "2", "pods", "9")),
		Leaving:     func(pod *v1.Pod) bool { return ended[pod.UID] },
		Wanted:      func(uid types.UID) bool { return !removed[uid] },
		Preempt: func(pod *v1.Pod, victims []*v1.Pod, missing []Shortage) {
			require.Equal(t, types.UID("crit"), pod.UID)
			require.Equal(t, v1.ResourceCPU, missing[0].Name)
			for _, v := range victims {
				ended[v.UID] = true
			}
		},
	})
	require.NoError(t, err)
	a, b, crit := newPod("a", list("cpu", "1")), newPod("b", list("cpu", "1")), newPod("crit", list("cpu", "1"), critical)
	active := []*v1.Pod{a, b}
	require.ErrorContains(t, fit.Admit(crit, active), "waiting for 1 preempted pods")
	require.Len(t, ended, 1)
	require.ErrorContains(t, fit.Admit(crit, active), "waiting for terminating pods")
	require.Len(t, ended, 1, "no further victim")
	active = slices.DeleteFunc(active, func(pod *v1.Pod) bool { return ended[pod.UID] })
	require.ElementsMatch(t, append(slices.Clone(active), crit), fit.Contenders(newPod("late", nil), active))
	require.Equal(t, active, fit.Contenders(newPod("other", nil, critical), active))
	require.IsType(t, &syncloop.Rejection{}, fit.Admit(newPod("late", list("cpu", "1")), active), "the resources are reserved for the critical pod")
	require.NoError(t, fit.Admit(crit, active))
	require.NoError(t, fit.Admit(newPod("late", list("cpu", "1")), active), "the caller passes the active pods")

	require.Error(t, fit.Admit(crit, []*v1.Pod{a, b}))
	removed["crit"] = true
	require.NoError(t, fit.Admit(newPod("late", list("cpu", "1")), active), "a removed pod reserves no resources")

	large := newPod("too", list("cpu", "3"), critical)
	err = fit.Admit(large, active)
	require.EqualError(t, err, "UnexpectedAdmissionError: Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]")
	static(large)
	require.EqualError(t, fit.Admit(large, active), "OutOfcpu: Node didn't have enough resource: cpu, requested: 3000, used: 1000, capacity: 2000")
}

// In any order of arrivals and departures the admitted pods never exceed the node's resources, and
// the admitted pods are admitted again in the same order.
func TestFitNeverExceedsAllocatable(t *testing.T) {
	has := list("cpu", "6", "memory", "1Gi", "pods", "12")
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		fit, err := New(Config{Allocatable: node(has)})
		require.NoError(t, err)
		var active []*v1.Pod
		for i := range 60 {
			if len(active) > 0 && r.IntN(4) == 0 {
				active = slices.Delete(active, 0, 1)
			}
			pod := randomPod(r, i)
			if fit.Admit(pod, active) == nil {
				active = append(active, pod)
			}
			sum := amounts{}
			for _, p := range active {
				for name, n := range requested(p) {
					sum[name] += n
				}
			}
			for name, q := range has {
				require.LessOrEqual(t, sum[name], podfacts.Amount(name, q), "seed %d", seed)
			}
		}
		again, err := New(Config{Allocatable: node(has)})
		require.NoError(t, err)
		for i, pod := range active {
			require.NoError(t, again.Admit(pod, active[:i]), "seed %d", seed)
		}
	}
}

func TestLedgerForgetsOldPods(t *testing.T) {
	fit, err := New(Config{Allocatable: node(list("pods", "1000"))})
	require.NoError(t, err)
	stable := newPod("kept", nil)
	for i := range 100 {
		require.NoError(t, fit.Admit(newPod("x", nil), []*v1.Pod{stable, newPod(strconv.Itoa(i), nil)}))
	}
	require.Len(t, fit.ledger.pods, 2)
	changed := newPod("kept", list("cpu", "1"))
	require.Equal(t, int64(1000), fit.ledger.of([]*v1.Pod{changed})[changed][v1.ResourceCPU], "the newest version counts")
}

func BenchmarkAdmit500(b *testing.B) {
	fit, err := New(Config{Allocatable: node(list("cpu", "1000", "memory", "1Ti", "pods", "600"))})
	require.NoError(b, err)
	var active []*v1.Pod
	for i := range 499 {
		active = append(active, newPod(strconv.Itoa(i), list("cpu", "100m", "memory", "100Mi")))
	}
	pod := newPod("500th", list("cpu", "100m", "memory", "100Mi"))
	for b.Loop() {
		require.NoError(b, fit.Admit(pod, active))
	}
}

// Amounts saturate, and their order is fixed.
func TestAmounts(t *testing.T) {
	require.Equal(t, int64(math.MaxInt64), saturatingSum(math.MaxInt64, 1))
	require.Equal(t, int64(math.MaxInt64), saturatingSum(math.MaxInt64-1, 1))
	for want, s := range map[int64]Shortage{
		math.MaxInt64:     {Requested: math.MaxInt64, Used: 9, Capacity: 5},
		7:                 {Requested: 3, Used: 9, Capacity: 5},
		3:                 {Requested: 3, Used: 5, Capacity: 5},
		-1:                {Requested: 3, Used: 1, Capacity: 5},
		1:                 {Requested: 1, Used: math.MaxInt64, Capacity: math.MaxInt64},
		math.MaxInt64 - 1: {Requested: math.MaxInt64, Used: 4, Capacity: 5},
	} {
		require.Equal(t, want, s.Missing(), s)
	}
	all := amounts{"a.example/x": 1, "z": 1, "ephemeral-storage": 1, "memory": 1, "cpu": 1, "pods": 1}
	require.Equal(t, []v1.ResourceName{"pods", "cpu", "memory", "ephemeral-storage", "a.example/x", "z"}, all.names())
}

// A pod counts as one pod, independently of its requests.
func TestRequested(t *testing.T) {
	require.Equal(t, amounts{"pods": 1, "cpu": 1000}, requested(newPod("a", list("cpu", "1", "memory", "0", "pods", "5"))))
}
