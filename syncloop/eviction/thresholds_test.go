package eviction

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// N32
func TestParse(t *testing.T) {
	signals := func(s Settings) map[Signal]Value {
		list, err := s.Parse()
		require.NoError(t, err)
		out := map[Signal]Value{}
		for _, t := range list {
			out[t.Signal] = t.Value
		}
		return out
	}
	own := map[string]string{"memory.available": "200Mi"}
	require.Equal(t, map[Signal]Value{MemoryAvailable: {Amount: 200 * mi}}, signals(Settings{Hard: own}))
	require.Equal(t, map[Signal]Value{
		MemoryAvailable: {Amount: 200 * mi}, NodeFSAvailable: {Percent: 10}, NodeFSInodesFree: {Percent: 5}, ImageFSAvailable: {Percent: 15}, ImageFSInodesFree: {Percent: 5},
	}, signals(Settings{Hard: own, MergeDefaults: true}))
	require.Len(t, signals(Settings{}), 5)
	require.Empty(t, signals(Settings{Hard: map[string]string{}}))
	require.Empty(t, signals(Settings{Hard: map[string]string{"memory.available": "0%", "nodefs.available": "100%", "containerfs.available": "5%"}}))
	require.Empty(t, signals(Settings{Hard: map[string]string{"containerfs.inodesFree": "5%"}}))
	require.Equal(t, map[Signal]Value{PIDAvailable: {Amount: math.MaxInt64}}, signals(Settings{Hard: map[string]string{"pid.available": "9223372036854775807"}}))

	require.Equal(t, map[Signal]Value{MemoryAvailable: {Amount: 200 * mi}, AllocatableMemoryAvailable: {Amount: 200 * mi}}, signals(Settings{Hard: own, EnforcePods: true}))
	both := map[string]string{"memory.available": "200Mi", "allocatableMemory.available": "1Mi", "pid.available": "5"}
	require.Equal(t, map[Signal]Value{MemoryAvailable: {Amount: 200 * mi}, AllocatableMemoryAvailable: {Amount: mi}, PIDAvailable: {Amount: 5}}, signals(Settings{Hard: both, EnforcePods: true}), "an explicit threshold precedes the copied one")
	soft := Settings{Hard: map[string]string{"pid.available": "5"}, Soft: own, SoftGrace: map[string]string{"memory.available": "1ns"}, EnforcePods: true}
	require.Equal(t, map[Signal]Value{MemoryAvailable: {Amount: 200 * mi}, PIDAvailable: {Amount: 5}}, signals(soft), "a soft threshold is not copied")
	soft.Soft, soft.SoftGrace = map[string]string{"allocatableMemory.available": "1Mi"}, map[string]string{"allocatableMemory.available": "1s"}
	soft.Hard = own
	list, err := soft.Parse()
	require.NoError(t, err)
	require.Len(t, list, 3, "an explicit soft threshold does not replace the copied hard one")

	list, err = Settings{
		Hard: map[string]string{"pid.available": "1k", "memory.available": "1Mi"},
		Soft: map[string]string{"memory.available": "2Mi"}, SoftGrace: map[string]string{"memory.available": "90s"},
		MinimumReclaim: map[string]string{"memory.available": "1%"},
	}.Parse()
	require.NoError(t, err)
	require.Equal(t, []Threshold{
		{Signal: MemoryAvailable, Value: Value{Amount: mi}, MinReclaim: Value{Percent: 1}},
		{Signal: MemoryAvailable, Value: Value{Amount: 2 * mi}, Grace: 90 * time.Second, MinReclaim: Value{Percent: 1}},
		{Signal: PIDAvailable, Value: Value{Amount: 1000}},
	}, list)
}

func TestParseErrors(t *testing.T) {
	one := func(signal, text string) map[string]string { return map[string]string{signal: text} }
	for want, s := range map[string]Settings{
		`evictionHard[cpu]: unknown signal`:                                                                  {Hard: one("cpu", "x")},
		`evictionSoftGracePeriod[disk]: unknown signal`:                                                      {SoftGrace: one("disk", "30s")},
		`evictionHard[memory.available]: "-1" must not be negative`:                                          {Hard: one("memory.available", "-1")},
		`evictionHard[memory.available]: "0" must be greater than 0`:                                         {Hard: one("memory.available", "0")},
		`evictionHard[memory.available]: "1e40" must be at most 2^63-1`:                                      {Hard: one("memory.available", "1e40")},
		`evictionHard[memory.available]: "x" must be a quantity such as 100Mi or a percentage such as 10%`:   {Hard: one("memory.available", "x")},
		`evictionHard[memory.available]: "101%" must be a percentage from 0% to 100%`:                        {Hard: one("memory.available", "101%")},
		`evictionHard[memory.available]: "NaN%" must be a percentage from 0% to 100%`:                        {Hard: one("memory.available", "NaN%")},
		`evictionSoft[memory.available]: evictionSoftGracePeriod has no entry for this signal`:               {Soft: one("memory.available", "1Mi")},
		`evictionSoftGracePeriod[pid.available]: "0s" must be a duration greater than 0, such as 1m30s`:      {Soft: one("pid.available", "5"), SoftGrace: one("pid.available", "0s")},
		`evictionSoftGracePeriod[memory.available]: "soon" must be a duration greater than 0, such as 1m30s`: {SoftGrace: one("memory.available", "soon")},
		`evictionMinimumReclaim[nodefs.available]: "-5%" must be a percentage from 0% to 100%`:               {MinimumReclaim: one("nodefs.available", "-5%")},
		`evictionMinimumReclaim[disk]: unknown signal`:                                                       {MinimumReclaim: one("disk", "5%")},
	} {
		_, err := s.Parse()
		require.EqualError(t, err, "eviction: "+want)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"100Mi", "10%", "0", "-1", "1e40", "NaN%", "1.5Gi", "100%", "%"} {
		f.Add(text, "30s")
	}
	f.Fuzz(func(t *testing.T, text, grace string) {
		for _, signal := range []string{"memory.available", "nodefs.inodesFree"} {
			one := map[string]string{signal: text}
			list, err := Settings{Hard: map[string]string{}, Soft: one, SoftGrace: map[string]string{signal: grace}, MinimumReclaim: one}.Parse()
			if err != nil {
				require.Empty(t, list)
				continue
			}
			for _, got := range list {
				require.Positive(t, got.Grace)
				require.Positive(t, got.Value.Percent+float64(got.Value.Amount))
				require.LessOrEqual(t, got.Value.Percent, 100.0)
				for _, capacity := range []uint64{0, 1, 1 << 40, math.MaxUint64} {
					if got.Value.Percent > 0 {
						require.LessOrEqual(t, got.Value.Of(capacity), capacity)
					}
				}
			}
		}
	})
}

// A negative amount is zero. Shares are rounded as upstream does.
func TestValueOf(t *testing.T) {
	for v, want := range map[Value]uint64{{Amount: 7}: 7, {}: 0, {Amount: -7}: 0, {Percent: 10, Amount: 7}: 100, {Percent: 1}: 9} {
		require.Equal(t, want, v.Of(1000), v)
	}
}

// Near is true below Value plus MinReclaim, independently of the reading's time, which may become
// valid later.
func TestNear(t *testing.T) {
	p := Policy{Thresholds: []Threshold{{Signal: MemoryAvailable, Value: Value{Amount: 100}, MinReclaim: Value{Amount: 50}}}}
	for available, want := range map[uint64]bool{99: true, 100: true, 149: true, 150: false} {
		require.Equal(t, want, p.Near(usageOf(MemoryAvailable, available, 1000, noon)), available)
		require.Equal(t, want, p.Near(usageOf(MemoryAvailable, available, 1000, time.Time{})), available)
		if d := p.Decide(State{}, usageOf(MemoryAvailable, available, 1000, noon), nil, noon); d.Met != nil {
			require.True(t, want)
		}
	}
	require.False(t, p.Near(usageOf(PIDAvailable, 0, 1000, noon)))
	require.False(t, p.Near(Usage{}))
	require.False(t, Policy{}.Near(usageOf(MemoryAvailable, 0, 1, noon)))
}

func TestLimitsOf(t *testing.T) {
	for name, c := range map[string]struct {
		pod                *v1.Pod
		emptyDirs, storage bool
	}{
		"none":      {newPod("a"), false, false},
		"emptyDir":  {newPod("a", emptyDir("1Mi")), true, false},
		"unlimited": {newPod("a", emptyDir("0")), false, false},
		"other volumes": {newPod("a", func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "plain", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}, {Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}}}
		}), false, false},
		"container":      {newPod("a", limits("1Mi")), false, true},
		"both":           {newPod("a", emptyDir("1Mi"), limits("1Mi")), true, true},
		"init container": {newPod("a", func(p *v1.Pod) { p.Spec.InitContainers = newPod("b", limits("1Mi")).Spec.Containers }), false, true},
		"pod": {newPod("a", func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Mi")}}
		}), false, true},
		"another limit of the pod": {newPod("a", func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Mi")}}
		}), false, false},
		"other limits": {newPod("a", func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Mi")}
		}), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			emptyDirs, storage := LimitsOf(c.pod)
			require.Equal(t, c.emptyDirs, emptyDirs)
			require.Equal(t, c.storage, storage)
		})
	}
}
