package allocation

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// What is asked for of a container, or of a pod as a whole, counts by what becomes of it.
func TestMetricsCount(t *testing.T) {
	pod := func(r v1.ResourceRequirements, whole *v1.ResourceRequirements) *v1.Pod {
		return newPod("a", r, func(pod *v1.Pod) { pod.Spec.Resources = whole })
	}
	small := v1.ResourceRequirements{Requests: with("1", "1Mi").Requests, Limits: with("", "2Mi").Requests}
	large := v1.ResourceRequirements{Requests: with("2", "1Mi").Requests, Limits: with("3", "1Mi").Requests}
	grown := []string{"cpu requests increase", "cpu limits add", "memory limits decrease"}
	shrunk := []string{"cpu requests decrease", "cpu limits remove", "memory limits increase"}
	none := v1.ResourceRequirements{}
	for name, c := range map[string]struct {
		before, now *v1.Pod
		want        []string
	}{
		"nothing":              {pod(small, &large), pod(small, &large), nil},
		"a container grows":    {pod(small, nil), pod(large, nil), grown},
		"a container shrinks":  {pod(large, nil), pod(small, nil), shrunk},
		"the pod grows":        {pod(none, &small), pod(none, &large), grown},
		"the pod shrinks":      {pod(none, &large), pod(none, &small), shrunk},
		"the pod gets its own": {pod(none, nil), pod(none, &small), []string{"cpu requests add", "memory requests add", "memory limits add"}},
		"the pod loses them":   {pod(none, &small), pod(none, nil), []string{"cpu requests remove", "memory requests remove", "memory limits remove"}},
	} {
		var got []string
		m := Metrics{Requested: func(resource, requirement, operation string) {
			got = append(got, resource+" "+requirement+" "+operation)
		}}
		m.count(c.before, c.now)
		require.ElementsMatch(t, c.want, got, name)
	}
}
