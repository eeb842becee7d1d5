package podfacts

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Container returns a pod's regular, init or ephemeral container by its name, or nil, also for a
// nil pod.
func Container(pod *v1.Pod, name string) *v1.Container {
	c, _, _ := find(pod, name)
	return c
}

// Regular returns a pod's regular container by its name, or nil.
func Regular(pod *v1.Pod, name string) *v1.Container {
	if c, field, _ := find(pod, name); field == "containers" {
		return c
	}
	return nil
}

// Reference returns the object of a pod's events.
func Reference(pod *v1.Pod) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}

// FieldPath returns the field of a container in the reference of its events, "" if the
// pod has no such container.
func FieldPath(pod *v1.Pod, name string) string {
	c, field, _ := find(pod, name)
	if c == nil {
		return ""
	}
	return "spec." + field + "{" + name + "}"
}

// SpecPath returns the path of a container in its pod's spec, "container" if the pod has
// no such container.
func SpecPath(pod *v1.Pod, name string) string {
	c, field, i := find(pod, name)
	if c == nil {
		return "container"
	}
	return fmt.Sprintf("spec.%s[%d]", field, i)
}

func find(pod *v1.Pod, name string) (c *v1.Container, field string, index int) {
	if pod == nil {
		return nil, "", 0
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			return c, "containers", i
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c, "initContainers", i
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if e := &pod.Spec.EphemeralContainers[i]; e.Name == name {
			return (*v1.Container)(&e.EphemeralContainerCommon), "ephemeralContainers", i
		}
	}
	return nil, "", 0
}
