package podfacts

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// AppArmorProfile returns the profile of a container: from its security context, else from the
// deprecated annotation, which static pods may still have, else from the pod's security context.
// Without any of them it is nil.
func AppArmorProfile(pod *v1.Pod, c *v1.Container) (*v1.AppArmorProfile, error) {
	if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return c.SecurityContext.AppArmorProfile, nil
	}
	key := v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
	if text, ok := pod.Annotations[key]; ok {
		local, isLocal := strings.CutPrefix(text, v1.DeprecatedAppArmorBetaProfileNamePrefix)
		switch {
		case text == v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
			return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}, nil
		case text == v1.DeprecatedAppArmorBetaProfileNameUnconfined:
			return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}, nil
		case isLocal:
			return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}, nil
		}
		return nil, fmt.Errorf("metadata.annotations[%s]: invalid profile %q", key, text)
	}
	if pod.Spec.SecurityContext != nil {
		return pod.Spec.SecurityContext.AppArmorProfile, nil
	}
	return nil, nil
}
