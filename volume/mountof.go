package volume

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podfacts"
)

// mountOf is what follows from a pod for the mount of one of its volumes.
func mountOf(pod *v1.Pod, spec *Spec) Mount {
	m := Mount{Pod: pod, Spec: spec, FSGroup: fsGroup(pod), RunAsUser: runAsUser(pod), SizeLimit: sizeLimit(pod, spec)}
	if c := pod.Spec.SecurityContext; c != nil {
		m.FSGroupPolicy = c.FSGroupChangePolicy
	}
	return m
}

func fsGroup(pod *v1.Pod) *int64 {
	if pod == nil || pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// runAsUser is the user of all containers of a pod, nil if they differ or one does not
// say.
func runAsUser(pod *v1.Pod) (user *int64) {
	var of []*v1.SecurityContext
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			of = append(of, list[i].SecurityContext)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		of = append(of, pod.Spec.EphemeralContainers[i].SecurityContext)
	}
	for _, c := range of {
		var own *int64
		switch {
		case c != nil && c.RunAsUser != nil:
			own = c.RunAsUser
		case pod.Spec.SecurityContext != nil:
			own = pod.Spec.SecurityContext.RunAsUser
		}
		if own == nil || user != nil && *user != *own {
			return nil
		}
		user = own
	}
	return user
}

// sizeLimit is how much a pod may put into one of its volumes: what the volume says,
// and the pod's limit of what that medium takes, if it says one.
func sizeLimit(pod *v1.Pod, spec *Spec) (limit int64) {
	if spec == nil || spec.Inline == nil {
		return 0
	}
	switch e := spec.Inline.EmptyDir; {
	case e != nil && e.Medium == v1.StorageMediumDefault:
		return smaller(quantity(e.SizeLimit), podLimit(pod, v1.ResourceEphemeralStorage))
	case e != nil && e.Medium == v1.StorageMediumMemory:
		return smaller(quantity(e.SizeLimit), podLimit(pod, v1.ResourceMemory))
	case e != nil:
		return quantity(e.SizeLimit)
	case spec.Inline.ConfigMap != nil:
		return podLimit(pod, v1.ResourceEphemeralStorage)
	}
	return 0
}

func quantity(q *resource.Quantity) int64 {
	if q == nil {
		return 0
	}
	return q.Value()
}

// smaller is the smaller of two limits; zero is none.
func smaller(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// podLimit is the limit of a pod of something: its own, or that of its containers, of
// which those run together that are no init containers, or are sidecars. Of memory there
// is none if one container has none.
func podLimit(pod *v1.Pod, name v1.ResourceName) int64 {
	if r := pod.Spec.Resources; r != nil {
		if q, ok := r.Limits[name]; ok {
			return q.Value()
		}
	}
	var together, most int64
	limited := true
	limit := func(c *v1.Container) int64 {
		q, ok := c.Resources.Limits[name]
		limited = limited && ok
		return q.Value()
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		own := limit(c)
		most = max(most, together+own)
		if podfacts.IsSidecar(c) {
			together += own
		}
	}
	for i := range pod.Spec.Containers {
		together += limit(&pod.Spec.Containers[i])
	}
	if name == v1.ResourceMemory && !limited {
		return 0
	}
	return max(most, together)
}
