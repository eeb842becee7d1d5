package podstatus

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// ErrIllegalTransition is the error of a status in which a container that has
// ended for good has not.
var ErrIllegalTransition = errors.New("illegal transition of a container")

// CheckTransition tells whether a status may follow another: a container that has
// terminated, and may not run again by its pod's policy or its own, stays
// terminated. The error is an ErrIllegalTransition and names the containers.
//
// Another instance of the container is no contradiction: that the runtime has one
// is a fact, as when init containers run again in a new sandbox. What is refused
// is an end that gets lost. Sidecars may always run again. Ephemeral containers,
// pods whose own policy is Always, and pods in which all containers may restart
// together, are not looked at.
func CheckTransition(pod *v1.Pod, old, new *v1.PodStatus) error {
	if pod.Spec.RestartPolicy == v1.RestartPolicyAlways || pod.Spec.RestartPolicy == "" || podfacts.MayRestartAll(pod) {
		return nil
	}
	revived := append(revivals(pod, pod.Spec.InitContainers, old.InitContainerStatuses, new.InitContainerStatuses),
		revivals(pod, pod.Spec.Containers, old.ContainerStatuses, new.ContainerStatuses)...)
	if len(revived) > 0 {
		return fmt.Errorf("%w: %v terminated for good and no more", ErrIllegalTransition, slices.Compact(revived))
	}
	return nil
}

func revivals(pod *v1.Pod, containers []v1.Container, old, new []v1.ContainerStatus) (names []string) {
	for i := range containers {
		c := &containers[i]
		before, after := Find(old, c.Name), Find(new, c.Name)
		if before == nil || after == nil {
			continue
		}
		ended := before.State.Terminated
		if ended == nil || after.State.Terminated != nil || MayRestart(pod, c, ended) {
			continue
		}
		if after.ContainerID == "" || after.ContainerID == before.ContainerID {
			names = append(names, c.Name)
		}
	}
	return names
}
