package eviction

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Pods need to be measured from where a threshold may act on, and its MinReclaim may be
// missing; whatever the reading's time, since that may be known a moment later.
func TestNear(t *testing.T) {
	p := Policy{Thresholds: []Threshold{{Signal: MemoryAvailable, Value: Value{Amount: 100}, MinReclaim: Value{Amount: 50}}}}
	for available, want := range map[uint64]bool{99: true, 100: true, 149: true, 150: false} {
		require.Equal(t, want, p.Near(left(MemoryAvailable, available, 1000, noon)), available)
		require.Equal(t, want, p.Near(left(MemoryAvailable, available, 1000, time.Time{})), available)
		if d := p.Decide(State{}, left(MemoryAvailable, available, 1000, noon), nil, noon); d.Met != nil {
			require.True(t, want)
		}
	}
	require.False(t, p.Near(left(PIDAvailable, 0, 1000, noon)))
	require.False(t, p.Near(Usage{}))
	require.False(t, Policy{}.Near(left(MemoryAvailable, 0, 1, noon)))
}

func TestLimitsOf(t *testing.T) {
	for name, c := range map[string]struct {
		pod                *v1.Pod
		emptyDirs, storage bool
	}{
		"none":      {named("a"), false, false},
		"emptyDir":  {named("a", emptyDir("1Mi")), true, false},
		"unlimited": {named("a", emptyDir("0")), false, false},
		"other volumes": {named("a", func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "plain", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}, {Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}}}
		}), false, false},
		"container":      {named("a", limits("1Mi")), false, true},
		"both":           {named("a", emptyDir("1Mi"), limits("1Mi")), true, true},
		"init container": {named("a", func(p *v1.Pod) { p.Spec.InitContainers = named("b", limits("1Mi")).Spec.Containers }), false, true},
		"pod": {named("a", func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Mi")}}
		}), false, true},
		"another limit of the pod": {named("a", func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Mi")}}
		}), false, false},
		"other limits": {named("a", func(p *v1.Pod) {
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
