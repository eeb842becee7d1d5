package admission

import (
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// AppArmor returns an Admitter that rejects pods (AppArmor) whose AppArmor profiles the node
// cannot enforce (KEP-24). enabled is true if the node's kernel has AppArmor. Unconfined is always
// allowed. A Localhost profile without a name is rejected. Whether a named profile is loaded is
// checked by the runtime when it creates the container. Running pods are always admitted.
func AppArmor(enabled bool) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		if phase := pod.Status.Phase; phase != v1.PodPending && phase != "" { // static pods have no phase
			return nil
		}
		if err := enforceable(pod, enabled); err != nil {
			return syncloop.Reject("AppArmor", "Cannot enforce AppArmor: %v", err)
		}
		return nil
	})
}

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
