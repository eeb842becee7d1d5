package request

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maskedPaths returns the paths of /proc and /sys that are invisible to a container, unless it
// has an unmasked /proc. cpus is the directory of the processors in /sys.
func maskedPaths(cpus string) []string {
	paths := []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
		"/sys/firmware", "/sys/devices/virtual/powercap",
	}
	perCPU, _ := filepath.Glob(filepath.Join(cpus, "cpu[0-9]*/thermal_throttle")) // the pattern is valid
	slices.SortFunc(perCPU, func(a, b string) int {                               // cpu10 after cpu9
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return append(paths, perCPU...)
}

// namespaces returns the namespaces that a pod shares with the node.
func (b *Builder) namespaces(pod *v1.Pod) (*runtimeapi.NamespaceOption, error) {
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
	var err error
	out.UsernsOptions, err = b.users(pod)
	return out, err
}

// users returns the pod's user namespace, or the node's (KEP-127).
func (b *Builder) users(pod *v1.Pod) (*runtimeapi.UserNamespace, error) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}, nil
	}
	switch {
	case b.cfg.UserNamespace == nil:
		return nil, errors.New("spec.hostUsers: false: this agent has no user namespaces")
	case !b.cfg.HandlerFeatures(pod).UserNamespaces:
		return nil, errors.New("can't set `spec.hostUsers: false`, runtime does not support user namespaces")
	}
	ns, err := b.cfg.UserNamespace(pod)
	if err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	return ns.options(), nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// sandboxSecurity returns the security context of a pod's sandbox. Its seccomp profile is always
// the runtime's default, because it applies only to the pause process.
func (b *Builder) sandboxSecurity(pod *v1.Pod) (*runtimeapi.LinuxSandboxSecurityContext, error) {
	ns, err := b.namespaces(pod)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions:   ns,
		Privileged:         anyPrivileged(pod),
		Seccomp:            &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		SupplementalGroups: b.cfg.ExtraGroups(pod),
	}
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return out, nil
	}
	if sc.RunAsUser != nil { // runtimes refuse a sandbox with a group but no user
		out.RunAsUser, out.RunAsGroup = int64Value(sc.RunAsUser), int64Value(sc.RunAsGroup)
	}
	out.SelinuxOptions = selinux(sc.SELinuxOptions)
	out.SupplementalGroups, out.SupplementalGroupsPolicy, err = groups(sc, b.cfg.ExtraGroups(pod))
	return out, err
}

// anyPrivileged reports whether any container is privileged. Runtimes refuse a privileged
// container in an unprivileged sandbox.
func anyPrivileged(pod *v1.Pod) bool {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if privileged(list[i].SecurityContext) {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if privileged(pod.Spec.EphemeralContainers[i].SecurityContext) {
			return true
		}
	}
	return false
}

func privileged(sc *v1.SecurityContext) bool { return sc != nil && isTrue(sc.Privileged) }

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

// groups returns the supplemental groups of every process in the pod.
func groups(sc *v1.PodSecurityContext, extra []int64) ([]int64, runtimeapi.SupplementalGroupsPolicy, error) {
	var out []int64
	if sc.FSGroup != nil {
		out = append(out, *sc.FSGroup)
	}
	out = append(append(out, sc.SupplementalGroups...), extra...)
	if sc.SupplementalGroupsPolicy == nil {
		return out, runtimeapi.SupplementalGroupsPolicy_Merge, nil
	}
	policy, ok := runtimeapi.SupplementalGroupsPolicy_value[string(*sc.SupplementalGroupsPolicy)]
	if !ok {
		return nil, 0, fmt.Errorf("securityContext.supplementalGroupsPolicy: unknown value %q", *sc.SupplementalGroupsPolicy)
	}
	return out, runtimeapi.SupplementalGroupsPolicy(policy), nil
}

// effectiveSecurity returns the pod's security context with the container's fields over it.
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

// verifyNonRoot returns an error for a container with runAsNonRoot that would run as root or
// might do so.
func verifyNonRoot(sc v1.SecurityContext, image Image) error {
	switch {
	case !isTrue(sc.RunAsNonRoot): // root is allowed
	case sc.RunAsUser != nil && *sc.RunAsUser < 0:
		return fmt.Errorf("container has an invalid runAsUser %d", *sc.RunAsUser)
	case sc.RunAsUser != nil && *sc.RunAsUser == 0:
		return errors.New("container has runAsNonRoot and runAsUser is 0")
	case sc.RunAsUser != nil: // the spec overrides the image
	case image.UID != nil && *image.UID < 0:
		return fmt.Errorf("image has an invalid user %d", *image.UID)
	case image.UID != nil && *image.UID == 0, image.UID == nil && image.Username == "":
		return errors.New("container has runAsNonRoot and image will run as root")
	case image.UID == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user %q, cannot verify that it is not root", image.Username)
	}
	return nil
}

func (b *Builder) containerSecurity(in Instance) (*runtimeapi.LinuxContainerSecurityContext, error) {
	pod, c := in.Pod, in.Container
	sc := effectiveSecurity(pod, c)
	if err := verifyNonRoot(sc, in.Image); err != nil {
		return nil, err
	}
	ns, err := b.namespaces(pod)
	if err != nil {
		return nil, err
	}
	if in.TargetID != "" && ns.Pid == runtimeapi.NamespaceMode_CONTAINER {
		ns.Pid, ns.TargetId = runtimeapi.NamespaceMode_TARGET, in.TargetID
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions:   ns,
		Privileged:         isTrue(sc.Privileged),
		ReadonlyRootfs:     isTrue(sc.ReadOnlyRootFilesystem),
		NoNewPrivs:         sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		RunAsGroup:         int64Value(sc.RunAsGroup),
		SelinuxOptions:     selinux(sc.SELinuxOptions),
		Capabilities:       capabilities(sc.Capabilities),
		SupplementalGroups: b.cfg.ExtraGroups(pod),
	}
	setUser(out, sc.RunAsUser, in.Image)
	if sc.ProcMount == nil || *sc.ProcMount != v1.UnmaskedProcMount {
		out.MaskedPaths = b.maskedPaths
		out.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	}
	if podContext := pod.Spec.SecurityContext; podContext != nil {
		if out.SupplementalGroups, out.SupplementalGroupsPolicy, err = groups(podContext, b.cfg.ExtraGroups(pod)); err != nil {
			return nil, err
		}
	}
	return out, b.setProfiles(out, pod, c, sc.SeccompProfile)
}

// setUser sets the user of the spec, or else of the image, or else root.
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
