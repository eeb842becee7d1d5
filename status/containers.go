package status

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg"
)

// kind is the list of the spec that a container is in.
type kind int8

const (
	regular kind = iota
	plainInit
	sidecar
	ephemeral
)

// containerStatuses fills the three lists: init containers in the order of the
// spec, the others by name.
func (b *builder) containerStatuses(s *v1.PodStatus) {
	spec := &b.in.Pod.Spec
	s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses = nil, nil, nil
	for i := range spec.InitContainers {
		c, k := &spec.InitContainers[i], plainInit
		if podfacts.IsSidecar(c) {
			k = sidecar
		}
		s.InitContainerStatuses = append(s.InitContainerStatuses, b.container(c, k, find(b.old.InitContainerStatuses, c.Name)))
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		s.ContainerStatuses = append(s.ContainerStatuses, b.container(c, regular, find(b.old.ContainerStatuses, c.Name)))
	}
	for i := range spec.EphemeralContainers {
		c := (*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)
		s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses, b.container(c, ephemeral, find(b.old.EphemeralContainerStatuses, c.Name)))
	}
	byName := func(a, b v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }
	slices.SortStableFunc(s.ContainerStatuses, byName)
	slices.SortStableFunc(s.EphemeralContainerStatuses, byName)
}

// container is the status of one container of the spec. old is its previous
// status or nil.
func (b *builder) container(c *v1.Container, k kind, old *v1.ContainerStatus) v1.ContainerStatus {
	var status v1.ContainerStatus
	if len(b.instances[c.Name]) > 0 {
		status = b.seen(c, old)
	} else {
		status = b.unseen(c, k, old)
	}
	b.explainWait(c, k, &status, old)
	status.VolumeMounts = b.volumeMounts(c)
	b.applyProbes(c, k, &status, old)
	return status
}

// blank is the status of a container of which nothing is known but its past.
func (b *builder) blank(c *v1.Container, old *v1.ContainerStatus) v1.ContainerStatus {
	reason := ReasonContainerCreating
	if len(b.in.Pod.Spec.InitContainers) > 0 {
		reason = ReasonPodInitializing
	}
	status := v1.ContainerStatus{Name: c.Name, Image: c.Image, State: waiting(reason, "")}
	if old != nil {
		status.RestartCount = old.RestartCount
		status.LastTerminationState = *old.LastTerminationState.DeepCopy()
	}
	return status
}

// unseen is the status of a container that the runtime does not have.
func (b *builder) unseen(c *v1.Container, k kind, old *v1.ContainerStatus) v1.ContainerStatus {
	status := b.blank(c, old)
	switch {
	case old != nil && !b.observed():
		return *old.DeepCopy()
	case b.restartAll && old != nil && (old.State.Running != nil || old.State.Terminated != nil):
		status.State = waiting(ReasonRestartingAllContainers, "The container was removed because all containers of the pod restart")
		status.LastTerminationState = unseenEnd(ReasonRestartingAllContainers, "The container was removed because all containers of the pod restart")
		status.RestartCount++
	case old != nil && old.State.Terminated != nil:
		return *old.DeepCopy()
	case old != nil && old.State.Waiting != nil && old.State.Waiting.Reason == ReasonRestartingAllContainers:
		status.State = *old.State.DeepCopy()
	case k == plainInit && b.regularRan && !b.restartAll:
		// The record was lost, for example to garbage collection; that it ended
		// well is certain.
		status.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason: ReasonCompleted, Message: "Unable to get the init container's status from the runtime; what follows it has started",
		}}
	case old == nil:
	case old.State.Running != nil && status.LastTerminationState.Terminated == nil:
		status.LastTerminationState = unseenEnd(ReasonContainerStatusUnknown, "The container could not be located")
		if b.in.Pod.DeletionTimestamp == nil {
			status.RestartCount++
		}
	}
	return status
}

// seen is the status of a container that the runtime has: its newest instance,
// with the one before it as the last termination.
func (b *builder) seen(c *v1.Container, old *v1.ContainerStatus) v1.ContainerStatus {
	instances := b.instances[c.Name]
	status := b.convert(c, instances[0], old)
	if len(instances) < 2 {
		return status
	}
	if last := status.LastTerminationState.Terminated; last != nil && last.ContainerID != "" && last.ContainerID == status.ContainerID {
		return status // the newest instance itself was given up, which is later
	}
	before := instances[1]
	if old != nil && old.ContainerID != before.ID.String() {
		old = nil
	}
	if earlier := b.convert(c, before, old); earlier.State.Terminated != nil {
		status.LastTerminationState = earlier.State
	}
	return status
}

// explainWait turns a container that should have been started into one that
// waits for the reason why it was not.
func (b *builder) explainWait(c *v1.Container, k kind, status, old *v1.ContainerStatus) {
	failure, failed := b.in.StartFailures[c.Name]
	if !failed || !b.shouldStart(c, k) || !b.observed() {
		return
	}
	ended := status.State.Terminated
	gone := b.newest(c.Name) == nil
	if k == plainInit && gone && b.regularRan {
		return // its work is done; the failure is an old one
	}
	if ended != nil {
		if gone {
			// What waits is no instance yet: it has no ID.
			*status = b.blank(c, old)
		}
		status.LastTerminationState = v1.ContainerState{Terminated: ended}
	}
	status.State = waiting(failure.Reason, failure.Message)
}

// shouldStart tells whether the container's next step is to be started.
func (b *builder) shouldStart(c *v1.Container, k kind) bool {
	newest := b.newest(c.Name)
	switch {
	case b.in.Pod.DeletionTimestamp != nil:
		return false
	case newest == nil:
		return true
	case newest.State == pleg.StateRunning:
		return false
	case newest.State != pleg.StateExited:
		return true
	case b.in.Terminal, k == ephemeral:
		return false
	case k == plainInit || k == sidecar:
		if newest.ExitCode == 0 {
			return false
		}
	}
	return podfacts.MayRestart(b.in.Pod, c, newest.ExitCode)
}

func (b *builder) volumeMounts(c *v1.Container) []v1.VolumeMountStatus {
	var out []v1.VolumeMountStatus
	for _, mount := range c.VolumeMounts {
		status := v1.VolumeMountStatus{Name: mount.Name, MountPath: mount.MountPath, ReadOnly: mount.ReadOnly}
		if mount.ReadOnly {
			mode := v1.RecursiveReadOnlyDisabled
			if wanted := mount.RecursiveReadOnly; wanted != nil && *wanted != v1.RecursiveReadOnlyDisabled && b.in.RecursiveReadOnly {
				mode = v1.RecursiveReadOnlyEnabled
			}
			status.RecursiveReadOnly = &mode
		}
		out = append(out, status)
	}
	return out
}

func waiting(reason, message string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// unseenEnd is the end of a container that nobody saw.
func unseenEnd(reason, message string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: reason, Message: message, ExitCode: unknownExitCode}}
}
