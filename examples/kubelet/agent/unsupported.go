package agent

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
)

// unsupported lists why a pod can never run here, one error per field. What it asks
// of the runtime is looked at when it is admitted (lacking), since manifests may be read
// before the runtime has answered.
func (c *Config) unsupported(pod *v1.Pod) []error {
	return append(c.notSupported(pod), admission.OtherNode(pod, localNode(c))...)
}

// unseenMounts lists the mounts that containers which are processes of the host would
// not see: all but paths of the host where they are.
func unseenMounts(pod *v1.Pod) []error {
	var errs []error
	container := func(c *v1.Container, path string) {
		for i := range c.VolumeMounts {
			if m := &c.VolumeMounts[i]; !inPlace(pod, m) {
				errs = append(errs, fmt.Errorf("%s.volumeMounts[%d]: the embedded runtime's containers see the host's files: only a hostPath can be mounted, at the same path", path, i))
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		container(&pod.Spec.InitContainers[i], fmt.Sprintf("spec.initContainers[%d]", i))
	}
	for i := range pod.Spec.Containers {
		container(&pod.Spec.Containers[i], fmt.Sprintf("spec.containers[%d]", i))
	}
	return errs
}

// inPlace tells whether a mount is of a path of the host and at that path.
func inPlace(pod *v1.Pod, m *v1.VolumeMount) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.Name == m.Name && v.HostPath != nil && filepath.Join(v.HostPath.Path, m.SubPath) == filepath.Clean(m.MountPath) && m.SubPathExpr == ""
	})
}

// notSupported lists what a pod asks for and this agent does not do.
func (c *Config) notSupported(pod *v1.Pod) []error {
	errs := unsupported(pod)
	if c.Flags.Kubeconfig == "" {
		errs = append(errs, needsServer(pod)...)
	}
	if c.Kubelet.ContainerRuntimeEndpoint == config.Embedded {
		errs = append(errs, unseenMounts(pod)...)
	}
	return errs
}

// needsServer lists what only pods of an API server can have: runtime classes, block
// devices, which are claimed, and resources that others count.
func needsServer(pod *v1.Pod) []error {
	var errs []error
	refuse := func(field string) { errs = append(errs, fmt.Errorf("%s: not supported without an API server", field)) }
	if pod.Spec.RuntimeClassName != nil && *pod.Spec.RuntimeClassName != "" {
		refuse("spec.runtimeClassName")
	}
	container := func(c *v1.Container, path string) {
		for _, field := range noInputs(c) {
			refuse(path + "." + field)
		}
	}
	for i := range pod.Spec.InitContainers {
		container(&pod.Spec.InitContainers[i], fmt.Sprintf("spec.initContainers[%d]", i))
	}
	for i := range pod.Spec.Containers {
		container(&pod.Spec.Containers[i], fmt.Sprintf("spec.containers[%d]", i))
	}
	return errs
}

// unsupported lists what a pod asks for and this agent does not do, or nobody could,
// one error per field. Such a pod is refused: to run it without would be to promise what is not
// kept.
func unsupported(pod *v1.Pod) []error {
	errs := append(pods.Unsupported(pod), probe.Validate(pod)...)
	refuse := func(found bool, field string) {
		if found {
			errs = append(errs, fmt.Errorf("%s: not supported", field))
		}
	}
	if pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers { // users of its own have no rights in what is the node's
		refuse(pod.Spec.HostPID, "spec.hostPID: with hostUsers: false")
		refuse(pod.Spec.HostIPC, "spec.hostIPC: with hostUsers: false")
	}
	return errs
}

// lacking refuses a pod that asks for what the runtime does not do, with the reasons that
// are known of it.
func lacking(pod *v1.Pod, runtime cri.Features) error {
	sc, ownUsers := pod.Spec.SecurityContext, pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers
	switch {
	case sc != nil && sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict && !runtime.SupplementalGroupsPolicy:
		return syncloop.Reject("SupplementalGroupsPolicyNotSupported", "spec.securityContext.supplementalGroupsPolicy: Strict: not supported by the runtime")
	case ownUsers && pod.Spec.HostNetwork && !runtime.UserNamespacesHostNetwork:
		return syncloop.Reject("PodFeatureUnsupported", "spec.hostNetwork: with hostUsers: false: not supported by the runtime")
	}
	return nil
}

// noInputs lists what a container needs of persistent volumes or of device plugins,
// which this agent does not have.
func noInputs(c *v1.Container) []string {
	var fields []string
	if len(c.VolumeDevices) > 0 {
		fields = append(fields, "volumeDevices")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		quantity := c.Resources.Limits[name]
		if strings.Contains(string(name), "/") && !quantity.IsZero() {
			fields = append(fields, "resources.limits["+string(name)+"]")
		}
	}
	return fields
}
