package agent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods"
)

// unsupported lists what a pod asks for and this agent does not do, one error per
// field. Such a pod is refused: to run it without would be to promise what is not
// kept.
func unsupported(pod *v1.Pod) []error {
	errs := append(pods.Unsupported(pod), pods.ForbiddenSysctls(pod)...)
	refuse := func(found bool, field string) {
		if found {
			errs = append(errs, fmt.Errorf("%s: not supported", field))
		}
	}
	for i := range pod.Spec.Containers {
		c, path := &pod.Spec.Containers[i], fmt.Sprintf("spec.containers[%d]", i)
		refuse(c.LivenessProbe != nil, path+".livenessProbe")
		refuse(c.ReadinessProbe != nil, path+".readinessProbe")
		refuse(c.StartupProbe != nil, path+".startupProbe")
		for j := range c.VolumeMounts {
			m := &c.VolumeMounts[j]
			refuse(m.SubPath != "", fmt.Sprintf("%s.volumeMounts[%d].subPath", path, j))
			refuse(m.SubPathExpr != "", fmt.Sprintf("%s.volumeMounts[%d].subPathExpr", path, j))
			refuse(m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled,
				fmt.Sprintf("%s.volumeMounts[%d].recursiveReadOnly: Enabled", path, j))
		}
	}
	refuse(pod.Spec.RuntimeClassName != nil && *pod.Spec.RuntimeClassName != "", "spec.runtimeClassName")
	if sc := pod.Spec.SecurityContext; sc != nil {
		refuse(sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict,
			"spec.securityContext.supplementalGroupsPolicy: Strict")
	}
	return errs
}
