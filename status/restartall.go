package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// restartAllTriggered tells whether all containers are being started anew: it
// began before, or a container ended in a way that demands it. A pod that is on
// its way out starts nothing.
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

// allGone tells that the runtime has no container of the spec any more.
func (b *builder) allGone() bool {
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
