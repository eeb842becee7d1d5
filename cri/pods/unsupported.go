package pods

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Unsupported returns one error per unsupported field of a pod's spec, with the path of the
// field. Refuse such a pod: starting it would silently ignore these fields. Unsupported does not
// check volumes, probes, fields for decisions before the start (node selectors, priorities, ...),
// or the requirements that Config.Inputs may provide: if an input is missing, the container is
// not created. It is pure.
func Unsupported(pod *v1.Pod) []error {
	var u unsupported
	spec := &pod.Spec
	u.when(len(spec.ResourceClaims) > 0, "spec.resourceClaims")
	u.when(spec.OS != nil && spec.OS.Name != "" && spec.OS.Name != v1.Linux, "spec.os")
	u.when(spec.SecurityContext != nil && spec.SecurityContext.WindowsOptions != nil, "spec.securityContext.windowsOptions")
	for i := range spec.InitContainers {
		u.container(fmt.Sprintf("spec.initContainers[%d]", i), &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		u.container(fmt.Sprintf("spec.containers[%d]", i), &spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		u.container(fmt.Sprintf("spec.ephemeralContainers[%d]", i), (*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return u
}

type unsupported []error

func (u *unsupported) when(found bool, field string) {
	if found {
		*u = append(*u, fmt.Errorf("%s: not supported", field))
	}
}

func (u *unsupported) container(path string, c *v1.Container) {
	u.when(len(c.Resources.Claims) > 0, path+".resources.claims")
	u.when(c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil, path+".securityContext.windowsOptions")
}
