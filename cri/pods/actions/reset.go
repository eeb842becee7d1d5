package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

// RestartAllTriggered reports whether all containers of a pod must be restarted (KEP-5532): one
// of a container's restart rules matches its exit, or the published status has the condition
// AllContainersRestarting. published may be nil. An exit in the published status counts only if
// the runtime has no instance of that container. Callers of status.Compute already have this
// result.
func RestartAllTriggered(pod *v1.Pod, seen *observed.Pod, published *v1.PodStatus) bool {
	if pod.DeletionTimestamp != nil || !podfacts.MayRestartAll(pod) {
		return false
	}
	if published == nil {
		published = &v1.PodStatus{}
	}
	return podfacts.ConditionTrue(published.Conditions, v1.AllContainersRestarting) ||
		anyDemands(pod.Spec.Containers, seen, published.ContainerStatuses) ||
		anyDemands(pod.Spec.InitContainers, seen, published.InitContainerStatuses)
}

func anyDemands(list []v1.Container, seen *observed.Pod, published []v1.ContainerStatus) bool {
	for i := range list {
		if demandsRestartAll(&list[i], seen.Newest(list[i].Name), published) {
			return true
		}
	}
	return false
}

func demandsRestartAll(c *v1.Container, newest *observed.Container, published []v1.ContainerStatus) bool {
	if newest != nil {
		return newest.State == observed.StateExited && podfacts.RestartsAll(c, newest.ExitCode)
	}
	for i := range published {
		if p := &published[i]; p.Name == c.Name && p.State.Terminated != nil {
			return podfacts.RestartsAll(c, p.State.Terminated.ExitCode)
		}
	}
	return false
}

// reset lists the instances to remove before all containers start again, in the order of
// Actions.Reset. It reports whether there are any. If not, only the start remains. It does not
// check sandboxes; the next decision does.
func (d *decision) reset() bool {
	victims, triggers := d.resetOf(d.in.Pod.Spec.Containers)
	initVictims, initTriggers := d.resetOf(d.in.Pod.Spec.InitContainers)
	for _, list := range [][]observed.Container{victims, initVictims, triggers, initTriggers} {
		d.out.Reset = append(d.out.Reset, list...)
	}
	if len(d.out.Reset) == 0 {
		return false
	}
	d.explain("all containers are restarted")
	return true
}

// resetOf returns the instances of containers, oldest first. Instances of containers whose exit
// triggered the restart are separate and come last. The newest instance is the trigger, so it
// survives longest if the agent dies.
func (d *decision) resetOf(list []v1.Container) (victims, triggers []observed.Container) {
	for i := range list {
		var all []observed.Container
		for j := len(d.in.Status.Containers) - 1; j >= 0; j-- {
			if d.in.Status.Containers[j].Name == list[i].Name {
				all = append(all, d.in.Status.Containers[j])
			}
		}
		if demandsRestartAll(&list[i], d.in.Status.Newest(list[i].Name), nil) {
			triggers = append(triggers, all...)
		} else {
			victims = append(victims, all...)
		}
	}
	return victims, triggers
}
