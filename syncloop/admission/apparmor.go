package admission

import (
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// AppArmor returns an Admitter that refuses pods (AppArmor) which ask to be confined where
// nobody would confine them (KEP-24): enabled tells whether the node's kernel has AppArmor.
// Unconfined is fine everywhere. A profile of the node without a name is refused too;
// whether one with a name is loaded is for the runtime to find out, when it makes the
// container. Pods that run are left alone.
func AppArmor(enabled bool) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		if phase := pod.Status.Phase; phase != v1.PodPending && phase != "" { // manifests have none
			return nil
		}
		if err := enforceable(pod, enabled); err != nil {
			return syncloop.Reject("AppArmor", "Cannot enforce AppArmor: %v", err)
		}
		return nil
	})
}

// enforceable says why the profiles that a pod asks for cannot be enforced.
func enforceable(pod *v1.Pod, enabled bool) error {
	profiles, err := appArmorProfiles(pod)
	for _, p := range profiles {
		switch {
		case p.Type == v1.AppArmorProfileTypeUnconfined:
		case !enabled:
			return errors.New("AppArmor is not enabled on the host")
		case p.Type == v1.AppArmorProfileTypeLocalhost && (p.LocalhostProfile == nil || strings.TrimSpace(*p.LocalhostProfile) == ""):
			return errors.New("invalid empty AppArmor profile name: appArmorProfile.localhostProfile")
		}
	}
	return err
}

// appArmorProfiles are the pod's own and those that its containers ask for.
func appArmorProfiles(pod *v1.Pod) (profiles []*v1.AppArmorProfile, err error) {
	if pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.AppArmorProfile != nil {
		profiles = append(profiles, pod.Spec.SecurityContext.AppArmorProfile)
	}
	for c := range podfacts.Containers(pod) {
		profile, wrong := podfacts.AppArmorProfile(pod, c)
		if profile != nil {
			profiles = append(profiles, profile)
		}
		err = errors.Join(err, wrong)
	}
	return profiles, err
}
