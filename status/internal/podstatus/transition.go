package podstatus

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// ErrIllegalTransition is wrapped by the error for a status that lost the final end of a
// container.
var ErrIllegalTransition = errors.New("illegal transition of a container")

// CheckTransition returns an error if a status must not follow another: a container that has
// terminated, and may not restart under the policies of its pod and itself, stays terminated. The
// error wraps ErrIllegalTransition and lists the containers.
//
// Another instance of the container is allowed, because the runtime has created it, for example
// when init containers run again in a new sandbox. Only a lost end is an error. Sidecars may
// always restart. CheckTransition ignores ephemeral containers, pods with restart policy Always,
// and pods in which all containers may restart together.
func CheckTransition(pod *v1.Pod, old, new *v1.PodStatus) error {
	if pod.Spec.RestartPolicy == v1.RestartPolicyAlways || pod.Spec.RestartPolicy == "" || podfacts.MayRestartAll(pod) {
		return nil
	}
	revived := append(revivals(pod, pod.Spec.InitContainers, old.InitContainerStatuses, new.InitContainerStatuses),
		revivals(pod, pod.Spec.Containers, old.ContainerStatuses, new.ContainerStatuses)...)
	if len(revived) > 0 {
		return fmt.Errorf("%w: %v must stay terminated", ErrIllegalTransition, slices.Compact(revived))
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
