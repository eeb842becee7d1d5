package request

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Paths of /proc and /sys that a container does not see, and those that it sees
// read-only, unless it asks for an unmasked /proc.
func maskedPaths() []string {
	paths := []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
		"/sys/firmware", "/sys/devices/virtual/powercap",
	}
	perCPU, err := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle")
	if err == nil {
		paths = append(paths, perCPU...)
	}
	return paths
}

func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

func namespaces(pod *v1.Pod) *runtimeapi.NamespaceOption {
	out := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	if pod.Spec.HostNetwork {
		out.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		out.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		out.Pid = runtimeapi.NamespaceMode_NODE
	case isTrue(pod.Spec.ShareProcessNamespace):
		out.Pid = runtimeapi.NamespaceMode_POD
	}
	return out
}

func isTrue(b *bool) bool { return b != nil && *b }

func sandboxSecurity(pod *v1.Pod) (*runtimeapi.LinuxSandboxSecurityContext, error) {
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces(pod),
		Privileged:       slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return privileged(&c) }),
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return out, nil
	}
	if sc.RunAsUser != nil { // runtimes refuse a sandbox that has a group and no user
		out.RunAsUser, out.RunAsGroup = int64Value(sc.RunAsUser), int64Value(sc.RunAsGroup)
	}
	out.SelinuxOptions = selinux(sc.SELinuxOptions)
	var err error
	out.SupplementalGroups, out.SupplementalGroupsPolicy, err = groups(sc)
	return out, err
}

func privileged(c *v1.Container) bool {
	return c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged)
}

func int64Value(v *int64) *runtimeapi.Int64Value {
	if v == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *v}
}

func selinux(o *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// groups are the supplemental groups of every process in the pod.
func groups(sc *v1.PodSecurityContext) ([]int64, runtimeapi.SupplementalGroupsPolicy, error) {
	var out []int64
	if sc.FSGroup != nil {
		out = append(out, *sc.FSGroup)
	}
	out = append(out, sc.SupplementalGroups...)
	if sc.SupplementalGroupsPolicy == nil {
		return out, runtimeapi.SupplementalGroupsPolicy_Merge, nil
	}
	policy, ok := runtimeapi.SupplementalGroupsPolicy_value[string(*sc.SupplementalGroupsPolicy)]
	if !ok {
		return nil, 0, fmt.Errorf("securityContext.supplementalGroupsPolicy: unknown value %q", *sc.SupplementalGroupsPolicy)
	}
	return out, runtimeapi.SupplementalGroupsPolicy(policy), nil
}

// effectiveSecurity lays the container's security context over the pod's.
func effectiveSecurity(pod *v1.Pod, c *v1.Container) v1.SecurityContext {
	var out v1.SecurityContext
	if c.SecurityContext != nil {
		out = *c.SecurityContext
	}
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return out
	}
	out.SELinuxOptions = either(out.SELinuxOptions, sc.SELinuxOptions)
	out.RunAsUser = either(out.RunAsUser, sc.RunAsUser)
	out.RunAsGroup = either(out.RunAsGroup, sc.RunAsGroup)
	out.RunAsNonRoot = either(out.RunAsNonRoot, sc.RunAsNonRoot)
	out.SeccompProfile = either(out.SeccompProfile, sc.SeccompProfile)
	return out
}

func either[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// verifyNonRoot refuses a container that must not run as root and would, or of
// which that cannot be told.
func verifyNonRoot(sc v1.SecurityContext, image Image) error {
	switch {
	case !isTrue(sc.RunAsNonRoot):
		return nil
	case sc.RunAsUser != nil && *sc.RunAsUser == 0:
		return errors.New("container has runAsNonRoot and runAsUser is 0")
	case sc.RunAsUser != nil && *sc.RunAsUser < 0:
		return fmt.Errorf("container has an invalid runAsUser %d", *sc.RunAsUser)
	case sc.RunAsUser != nil:
		return nil
	case image.UID != nil && *image.UID == 0, image.UID == nil && image.Username == "":
		return errors.New("container has runAsNonRoot and image will run as root")
	case image.UID != nil && *image.UID < 0:
		return fmt.Errorf("image has an invalid user %d", *image.UID)
	case image.UID == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user %q, cannot verify that it is not root", image.Username)
	}
	return nil
}

func (b *Builder) containerSecurity(pod *v1.Pod, c *v1.Container, image Image) (*runtimeapi.LinuxContainerSecurityContext, error) {
	sc := effectiveSecurity(pod, c)
	if err := verifyNonRoot(sc, image); err != nil {
		return nil, err
	}
	seccomp, err := b.seccomp(sc.SeccompProfile)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: namespaces(pod),
		Privileged:       isTrue(sc.Privileged),
		ReadonlyRootfs:   isTrue(sc.ReadOnlyRootFilesystem),
		NoNewPrivs:       sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		RunAsGroup:       int64Value(sc.RunAsGroup),
		SelinuxOptions:   selinux(sc.SELinuxOptions),
		Capabilities:     capabilities(sc.Capabilities),
		Seccomp:          seccomp,
	}
	setUser(out, sc.RunAsUser, image)
	if sc.ProcMount == nil || *sc.ProcMount != v1.UnmaskedProcMount {
		out.MaskedPaths, out.ReadonlyPaths = b.maskedPaths, readonlyPaths()
	}
	if pod.Spec.SecurityContext != nil {
		out.SupplementalGroups, out.SupplementalGroupsPolicy, err = groups(pod.Spec.SecurityContext)
	}
	return out, err
}

// setUser names the user: the spec's, else the image's, else root.
func setUser(out *runtimeapi.LinuxContainerSecurityContext, wanted *int64, image Image) {
	switch uid := either(wanted, image.UID); {
	case uid != nil:
		out.RunAsUser = int64Value(uid)
	case image.Username != "":
		out.RunAsUsername = image.Username
	default:
		out.RunAsUser = &runtimeapi.Int64Value{}
	}
}

func capabilities(c *v1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	out := &runtimeapi.Capability{}
	for _, name := range c.Add {
		out.AddCapabilities = append(out.AddCapabilities, string(name))
	}
	for _, name := range c.Drop {
		out.DropCapabilities = append(out.DropCapabilities, string(name))
	}
	return out
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
