package pods

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Unsupported lists what a pod's spec asks for and this package does not do, one
// error per field, named by its path. A caller refuses such a pod: starting it
// would silently give less than was asked for. Volumes, probes and what an agent
// decides before a pod is started (node selectors, priorities, ...) are not
// looked at. It is pure.
func Unsupported(pod *v1.Pod) []error {
	var u unsupported
	spec := &pod.Spec
	u.when(len(spec.ResourceClaims) > 0, "spec.resourceClaims")
	u.when(spec.HostUsers != nil && !*spec.HostUsers, "spec.hostUsers: false")
	u.when(spec.OS != nil && spec.OS.Name != "" && spec.OS.Name != v1.Linux, "spec.os")
	if sc := spec.SecurityContext; sc != nil {
		u.when(sc.AppArmorProfile != nil, "spec.securityContext.appArmorProfile")
		u.when(sc.WindowsOptions != nil, "spec.securityContext.windowsOptions")
	}
	for key := range pod.Annotations {
		u.when(strings.HasPrefix(key, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix), "metadata.annotations["+key+"]")
	}
	if spec.Resources != nil {
		u.resources("spec.resources", *spec.Resources)
	}
	for i := range spec.InitContainers {
		u.container(fmt.Sprintf("spec.initContainers[%d]", i), &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		u.container(fmt.Sprintf("spec.containers[%d]", i), &spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		u.container(fmt.Sprintf("spec.ephemeralContainers[%d]", i), (*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return u
}

// unsupported collects the fields found.
type unsupported []error

func (u *unsupported) when(found bool, field string) {
	if found {
		*u = append(*u, fmt.Errorf("%s: not supported", field))
	}
}

func (u *unsupported) container(path string, c *v1.Container) {
	u.when(c.Lifecycle != nil && c.Lifecycle.StopSignal != nil, path+".lifecycle.stopSignal")
	u.when(len(c.VolumeDevices) > 0, path+".volumeDevices")
	u.when(len(c.EnvFrom) > 0, path+".envFrom")
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && c.Env[i].Value == "" {
			u.when(from.FieldRef == nil, fmt.Sprintf("%s.env[%d].valueFrom.%s", path, i, envSource(from)))
		}
	}
	u.resources(path+".resources", c.Resources)
	if sc := c.SecurityContext; sc != nil {
		u.when(sc.AppArmorProfile != nil, path+".securityContext.appArmorProfile")
		u.when(sc.WindowsOptions != nil, path+".securityContext.windowsOptions")
	}
}

func envSource(from *v1.EnvVarSource) string {
	switch {
	case from.ResourceFieldRef != nil:
		return "resourceFieldRef"
	case from.ConfigMapKeyRef != nil:
		return "configMapKeyRef"
	case from.SecretKeyRef != nil:
		return "secretKeyRef"
	case from.FileKeyRef != nil:
		return "fileKeyRef"
	default:
		return "(empty)"
	}
}

// resources knows those that a cgroup enforces, and ephemeral storage, which an
// eviction manager does.
func (u *unsupported) resources(path string, r v1.ResourceRequirements) {
	u.when(len(r.Claims) > 0, path+".claims")
	lists := []struct {
		name string
		list v1.ResourceList
	}{{"requests", r.Requests}, {"limits", r.Limits}}
	for _, l := range lists {
		for name, quantity := range l.list {
			known := name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage
			u.when(!known && !quantity.IsZero(), path+"."+l.name+"."+string(name))
		}
	}
}
