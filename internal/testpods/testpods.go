// Package testpods makes pods for tests.
package testpods

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// New returns a pod shop/web with the UID 0d1e, restart policy Always, a grace period of 30 s,
// and regular containers with these names.
func New(names ...string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "0d1e", Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, DNSPolicy: v1.DNSDefault,
			TerminationGracePeriodSeconds: new(int64(30)),
		},
	}
	for _, name := range names {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: name, Image: "busybox",
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
		})
	}
	return pod
}

// Quantities returns resources from pairs of a name and an amount.
func Quantities(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}
