package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// podContainer is a container of any kind.
type podContainer struct {
	*v1.Container
	kind ContainerKind
	// inside is the target container of an ephemeral container, or "".
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

// initialises reports whether all later containers wait for its completion.
func (c podContainer) initialises() bool {
	return c.kind == KindInit && !podfacts.IsSidecar(c.Container)
}

// String returns the kind and name of the container, for messages.
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
