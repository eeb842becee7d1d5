package podfacts

import v1 "k8s.io/api/core/v1"

// Container returns a pod's regular, init or ephemeral container by its name, nil if it
// has none. A nil pod has none.
func Container(pod *v1.Pod, name string) *v1.Container {
	c, _ := find(pod, name)
	return c
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
	c, field := find(pod, name)
	if c == nil {
		return ""
	}
	return "spec." + field + "{" + name + "}"
}

// find returns a container and the field of its list.
func find(pod *v1.Pod, name string) (c *v1.Container, field string) {
	if pod == nil {
		return nil, ""
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			return c, "containers"
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c, "initContainers"
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if e := &pod.Spec.EphemeralContainers[i]; e.Name == name {
			return (*v1.Container)(&e.EphemeralContainerCommon), "ephemeralContainers"
		}
	}
	return nil, ""
}
