package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/request"
)

// ForbiddenSysctls lists the sysctls that a pod must not set, one error per
// field; see request.ForbiddenSysctls. A caller refuses such a pod. It is pure.
func ForbiddenSysctls(pod *v1.Pod, kernel string, allowed ...string) []error {
	return request.ForbiddenSysctls(pod, kernel, allowed...)
}

// CheckSysctls lists what cannot be allowed to pods; see request.CheckSysctls.
func CheckSysctls(allowed []string) []error { return request.CheckSysctls(allowed) }
