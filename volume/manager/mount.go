package manager

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/volume"
)

func mountOf(pod *v1.Pod, spec *volume.Spec) volume.Mount {
	m := volume.Mount{Pod: pod, Spec: spec, FSGroup: fsGroup(pod), RunAsUser: runAsUser(pod), SizeLimit: sizeLimit(pod, spec)}
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

// runAsUser returns the user of all containers of a pod, or nil if they differ or one has none.
func runAsUser(pod *v1.Pod) (user *int64) {
	for c := range podfacts.Containers(pod) {
		var own *int64
		switch {
		case c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil:
			own = c.SecurityContext.RunAsUser
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

// sizeLimit returns the size limit of a pod's volume: the smaller of the volume's limit and the
// pod's limit for the medium. Volumes with content of the agent are in memory, except config
// maps.
func sizeLimit(pod *v1.Pod, spec *volume.Spec) (limit int64) {
	if spec == nil || spec.Inline == nil {
		return 0
	}
	in := spec.Inline
	switch e := in.EmptyDir; {
	case e != nil && e.Medium == v1.StorageMediumDefault:
		return smaller(e.SizeLimit, podLimit(pod, v1.ResourceEphemeralStorage))
	case e != nil && e.Medium == v1.StorageMediumMemory:
		return smaller(e.SizeLimit, podMemory(pod))
	case e != nil:
		return smaller(e.SizeLimit, 0)
	case in.ConfigMap != nil:
		return podLimit(pod, v1.ResourceEphemeralStorage)
	case in.Secret != nil, in.DownwardAPI != nil, in.Projected != nil:
		return podMemory(pod)
	}
	return 0
}

// smaller returns the smaller of two limits. Zero means no limit.
func smaller(own *resource.Quantity, limit int64) int64 {
	if own == nil || own.IsZero() || limit != 0 && limit < own.Value() {
		return limit
	}
	return own.Value()
}

// podMemory returns the memory limit of the pod's cgroup. It is zero if the pod has no limit of
// its own and a container has none.
func podMemory(pod *v1.Pod) int64 {
	own := pod.Spec.Resources
	if own == nil || own.Limits.Memory().IsZero() {
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			if slices.ContainsFunc(list, func(c v1.Container) bool { return c.Resources.Limits.Memory().IsZero() }) {
				return 0
			}
		}
	}
	return podLimit(pod, v1.ResourceMemory)
}

// podLimit returns the pod's limit of a resource: its own, or the aggregate of its containers.
func podLimit(pod *v1.Pod, name v1.ResourceName) int64 {
	limit := helper.PodLimits(pod, helper.PodResourcesOptions{})[name]
	return limit.Value()
}
