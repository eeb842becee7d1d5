package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// fieldPath is where a container is in a pod's spec, as events name it.
func (k ContainerKind) fieldPath(name string) string {
	field := "containers"
	switch k {
	case KindInit:
		field = "initContainers"
	case KindEphemeral:
		field = "ephemeralContainers"
	}
	return "spec." + field + "{" + name + "}"
}

// kindOf tells in which list of a pod's spec a container is. One that is in none
// counts as regular, and so does one of a pod that only the runtime knows (nil).
func kindOf(pod *v1.Pod, name string) ContainerKind {
	if pod == nil {
		return KindRegular
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return KindInit
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return KindEphemeral
		}
	}
	return KindRegular
}

// kindRef is the object that events of a container are recorded on.
func (p podIdentity) kindRef(kind ContainerKind, name string) v1.ObjectReference {
	ref := p.ref()
	ref.FieldPath = kind.fieldPath(name)
	return ref
}

// podContainer is a container of a pod, of whatever kind.
type podContainer struct {
	*v1.Container
	kind ContainerKind
	// inside is the container whose processes an ephemeral one sees, if any.
	inside string
}

func initContainer(pod *v1.Pod, i int) podContainer {
	return podContainer{Container: &pod.Spec.InitContainers[i], kind: KindInit}
}

func regularContainer(pod *v1.Pod, i int) podContainer {
	return podContainer{Container: &pod.Spec.Containers[i], kind: KindRegular}
}

func ephemeralContainer(pod *v1.Pod, i int) podContainer {
	e := &pod.Spec.EphemeralContainers[i]
	return podContainer{Container: (*v1.Container)(&e.EphemeralContainerCommon), kind: KindEphemeral, inside: e.TargetContainerName}
}

// initialises tells whether everything after it has to wait for its end.
func (c podContainer) initialises() bool {
	return c.kind == KindInit && !podfacts.IsSidecar(c.Container)
}

// String names the container for people.
func (c podContainer) String() string {
	switch c.kind {
	case KindInit:
		return "init container " + c.Name
	case KindEphemeral:
		return "ephemeral container " + c.Name
	default:
		return "container " + c.Name
	}
}
