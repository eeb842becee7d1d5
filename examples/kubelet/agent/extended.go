package agent

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/podwright/podwright/syncloop"
)

// enoughExtended rejects a pod that asks for more of an extended resource than the Node has
// left beside the active pods. What the Node has nothing of is somebody else's to count, a
// scheduler extender's for one.
func enoughExtended(pod *v1.Pod, active []*v1.Pod, node *v1.Node) error {
	for name, want := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
		has, counted := node.Status.Allocatable[name]
		if !isExtended(name) || !counted || want.IsZero() {
			continue
		}
		left := has.DeepCopy()
		for _, other := range active {
			left.Sub(resource.PodRequests(other, resource.PodResourcesOptions{})[name])
		}
		if want.Cmp(left) > 0 {
			return syncloop.Reject("OutOf"+string(name), "the pod requests %s of %s, and %s of %s are left", want.String(), name, left.String(), has.String())
		}
	}
	return nil
}

// isExtended tells whether a resource is not one of Kubernetes' own.
func isExtended(name v1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}
