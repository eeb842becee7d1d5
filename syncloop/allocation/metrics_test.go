package allocation

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What is asked for of a container, or of a pod as a whole, counts by what becomes of it.
func TestMetricsCount(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		out := v1.ResourceList{}
		for name, text := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
			if text != "" {
				out[name] = resource.MustParse(text)
			}
		}
		return out
	}
	pod := func(r v1.ResourceRequirements, whole *v1.ResourceRequirements) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{Resources: whole, Containers: []v1.Container{{Name: "c", Resources: r}}}}
	}
	small := v1.ResourceRequirements{Requests: list("1", "1Mi"), Limits: list("", "2Mi")}
	large := v1.ResourceRequirements{Requests: list("2", "1Mi"), Limits: list("3", "1Mi")}
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
