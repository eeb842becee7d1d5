package request

import (
	"errors"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

func (b *Builder) setProfiles(out *runtimeapi.LinuxContainerSecurityContext, pod *v1.Pod, c *v1.Container, seccomp *v1.SeccompProfile) error {
	var err error
	if out.Seccomp, err = b.seccomp(seccomp); err != nil {
		return err
	}
	profile, err := podfacts.AppArmorProfile(pod, c)
	if err != nil || profile == nil {
		return err
	}
	return setAppArmor(out, profile)
}

func (b *Builder) seccomp(p *v1.SeccompProfile) (*runtimeapi.SecurityProfile, error) {
	switch {
	case p == nil && b.cfg.Node.SeccompDefault, p != nil && p.Type == v1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case p == nil, p.Type == v1.SeccompProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case p.Type == v1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil && filepath.IsLocal(*p.LocalhostProfile):
		return &runtimeapi.SecurityProfile{
			ProfileType:  runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: filepath.Join(b.cfg.Node.SeccompRoot, *p.LocalhostProfile),
		}, nil
	default:
		return nil, fmt.Errorf("securityContext.seccompProfile: type %q without a usable profile", p.Type)
	}
}

// setAppArmor sets a profile in both forms that runtimes read.
func setAppArmor(out *runtimeapi.LinuxContainerSecurityContext, p *v1.AppArmorProfile) error {
	out.Apparmor = &runtimeapi.SecurityProfile{} // RuntimeDefault
	var text string
	switch p.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		text = v1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case v1.AppArmorProfileTypeUnconfined:
		out.Apparmor.ProfileType = runtimeapi.SecurityProfile_Unconfined
		text = v1.DeprecatedAppArmorBetaProfileNameUnconfined
	case v1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			return errors.New("securityContext.appArmorProfile.localhostProfile is missing")
		}
		out.Apparmor.ProfileType = runtimeapi.SecurityProfile_Localhost
		out.Apparmor.LocalhostRef = *p.LocalhostProfile
		text = v1.DeprecatedAppArmorBetaProfileNamePrefix + *p.LocalhostProfile
	default:
		return fmt.Errorf("securityContext.appArmorProfile: unknown type %q", p.Type)
	}
	//lint:ignore SA1019 older runtimes read nothing else
	out.ApparmorProfile = text
	return nil
}
