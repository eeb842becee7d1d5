package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// restartAllTriggered reports whether all containers are being restarted: the restart was in
// progress before, or a container ended with an exit code that triggers it. A terminating pod
// does not restart containers.
func (b *builder) restartAllTriggered() bool {
	pod := b.in.Pod
	if !podfacts.MayRestartAll(pod) || pod.DeletionTimestamp != nil || b.in.Terminal {
		return false
	}
	if podfacts.ConditionTrue(b.old.Conditions, v1.AllContainersRestarting) {
		return true
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; b.demandsRestartAll(c, podstatus.Find(b.old.InitContainerStatuses, c.Name)) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; b.demandsRestartAll(c, podstatus.Find(b.old.ContainerStatuses, c.Name)) {
			return true
		}
	}
	return false
}

func (b *builder) demandsRestartAll(c *v1.Container, old *v1.ContainerStatus) bool {
	newest := b.newest(c.Name)
	if newest != nil {
		return newest.State == observed.StateExited && podfacts.RestartsAll(c, newest.ExitCode)
	}
	return old != nil && old.State.Terminated != nil && podfacts.RestartsAll(c, old.State.Terminated.ExitCode)
}

func (b *builder) allRemoved() bool {
	if !b.observed() {
		return false
	}
	for _, list := range [][]v1.Container{b.in.Pod.Spec.InitContainers, b.in.Pod.Spec.Containers} {
		for i := range list {
			if b.newest(list[i].Name) != nil {
				return false
			}
		}
	}
	return true
}
