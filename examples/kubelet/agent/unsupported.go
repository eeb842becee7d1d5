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

// unsupported returns the reasons why a static pod can never run here, one error per field.
// Requirements of the runtime are checked at admission (lacking), because manifests may be read
// before there is a connection.
func (c *Config) unsupported(pod *v1.Pod) []error {
	return append(c.notSupported(pod), admission.OtherNode(pod, localNode(c))...)
}

// unseenMounts lists the mounts that containers of the embedded runtime, which are processes of the
// host, would not see: all except host paths mounted at the same path.
func unseenMounts(pod *v1.Pod) []error {
	var errs []error
	container := func(c *v1.Container, path string) {
		for i := range c.VolumeMounts {
			if m := &c.VolumeMounts[i]; !inPlace(pod, m) {
				errs = append(errs, fmt.Errorf("%s.volumeMounts[%d]: the embedded runtime can only mount a hostPath volume at its own path, because containers use the host's file system", path, i))
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

// inPlace reports whether a mount is a path of the host, mounted at the same path.
func inPlace(pod *v1.Pod, m *v1.VolumeMount) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.Name == m.Name && v.HostPath != nil && filepath.Join(v.HostPath.Path, m.SubPath) == filepath.Clean(m.MountPath) && m.SubPathExpr == ""
	})
}

// notSupported lists the fields of a pod that this agent does not support.
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

// needsServer lists the fields that need an API server: runtime classes, block devices (which need
// claims) and extended resources.
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

// unsupported lists the fields of a pod that no configuration of this agent supports, and invalid
// probes, one error per field. Such a pod is rejected, because it would not behave as specified.
func unsupported(pod *v1.Pod) []error {
	errs := append(pods.Unsupported(pod), probe.Validate(pod)...)
	refuse := func(found bool, field string) {
		if found {
			errs = append(errs, fmt.Errorf("%s: not supported", field))
		}
	}
	// A user namespace has no rights in the node's other namespaces.
	if pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers {
		refuse(pod.Spec.HostPID, "spec.hostPID: with hostUsers: false")
		refuse(pod.Spec.HostIPC, "spec.hostIPC: with hostUsers: false")
	}
	return errs
}

// lacking rejects a pod that needs features that the runtime lacks, with upstream's reasons.
func lacking(pod *v1.Pod, runtime cri.Features) error {
	sc, ownUsers := pod.Spec.SecurityContext, pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers
	switch {
	case sc != nil && sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict && !runtime.SupplementalGroupsPolicy:
		return syncloop.Reject("SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=%s is not supported in this node", v1.SupplementalGroupsPolicyStrict)
	case ownUsers && pod.Spec.HostNetwork && !runtime.UserNamespacesHostNetwork:
		return syncloop.Reject("PodFeatureUnsupported", "spec.hostNetwork: with hostUsers: false: not supported by the runtime")
	}
	return nil
}

// noInputs lists a container's fields that need persistent volumes or device plugins.
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
