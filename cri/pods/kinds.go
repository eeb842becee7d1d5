package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/internal/podfacts"
)

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

// Why a container is stopped is decided upon in package actions.
type (
	// KillReason says why a container is stopped. Probe-level grace periods
	// depend on it.
	KillReason = actions.KillReason
	// ContainerKill is a container to stop.
	ContainerKill = actions.ContainerKill
)

// The reasons to stop a container. The zero value is any other reason.
const (
	KillLivenessProbe = actions.KillLivenessProbe
	KillStartupProbe  = actions.KillStartupProbe
)
