package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

// RestartAllTriggered tells whether all containers of a pod are to be restarted
// together (KEP-5532): a container has ended in a way for which one of its restart
// rules says so, or the published status, which may be nil, says that this has
// begun. A published end counts only for a container of which the runtime has
// nothing: what runs since is another matter. It is for callers that do not have
// the answer from status.Compute.
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

// reset lists what is to be removed before all containers start anew, in the
// order of Actions.Reset. It tells whether there is anything; if not, the restart
// has come as far as the start. Sandboxes are not looked at: whether they are
// good is for the next decision.
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

// resetOf returns the instances of containers, oldest first, apart from those of
// containers whose end triggered the restart. The newest instance is the one that
// did, so it comes last: should the agent die on the way, it is still there.
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
