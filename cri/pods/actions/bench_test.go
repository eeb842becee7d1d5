package actions

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg"
)

// BenchmarkCompute decides about pods of three containers, 100 of them in turn, as
// an agent's syncs do. The figure is per pod.
func BenchmarkCompute(b *testing.B) {
	names := []string{"a", "b", "c"}
	var up []pleg.ContainerStatus
	for _, name := range names {
		up = append(up, running(name), exited(name, 1))
	}
	resources := map[string]v1.ResourceRequirements{}
	for _, name := range names {
		resources[name] = res("100m", "200m", "64Mi", "128Mi")
	}
	sidecars := testPod(always, "i0", "s1", "i2", "a", "b", "c")
	for _, bc := range []struct {
		name   string
		pod    *v1.Pod
		status *pleg.PodStatus
	}{
		{"new", testPod(always, names...), observed(nil)},
		{"running", testPod(always, names...), observed(ready(), up...)},
		{"crashed", testPod(always, names...), observed(ready(), exited("c", 1), exited("b", 1), running("a"))},
		{"sidecars", sidecars, observed(ready(), append(up, exited("i2", 0), running("s1"), exited("i0", 0))...)},
	} {
		b.Run(bc.name, func(b *testing.B) {
			pods := make([]*v1.Pod, 100)
			for i := range pods {
				pods[i] = bc.pod.DeepCopy()
				pods[i].Name = fmt.Sprint("pod-", i)
				for j := range pods[i].Spec.Containers {
					pods[i].Spec.Containers[j].Resources = resources[pods[i].Spec.Containers[j].Name]
				}
			}
			actuated := &Actuated{Containers: resources}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				Compute(Input{Pod: pods[i%len(pods)], Status: bc.status, Actuated: actuated})
			}
		})
	}
}
