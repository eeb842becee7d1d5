package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// kind is the list of the pod's spec that contains a container.
type kind int8

const (
	regular kind = iota
	plainInit
	sidecar
	ephemeral
)

// cell has the values that most container statuses point to. The cells of a pod are one
// allocation.
type cell struct {
	running   v1.ContainerStateRunning
	started   bool
	resources v1.ResourceRequirements
	user      v1.ContainerUser
	linux     v1.LinuxContainerUser
	signal    v1.Signal
}

// subject is a container of the spec with its instances and its previous status.
type subject struct {
	*v1.Container
	kind
	// newest is the newest instance, before the instance before it. They may be nil.
	newest, before *observed.Container
	// old is the previous status, possibly of another instance. It may be nil.
	old *v1.ContainerStatus
	*cell
}

// containerStatuses fills the three lists: init containers in the order of the spec, all others
// by name.
func (b *builder) containerStatuses(s *v1.PodStatus) {
	spec := &b.in.Pod.Spec
	b.preallocate()
	s.InitContainerStatuses = statusList(len(spec.InitContainers))
	for i := range spec.InitContainers {
		c, k := &spec.InitContainers[i], plainInit
		if podfacts.IsSidecar(c) {
			k = sidecar
		}
		b.container(c, k, podstatus.Find(b.old.InitContainerStatuses, c.Name), &s.InitContainerStatuses[i])
	}
	s.ContainerStatuses = statusList(len(spec.Containers))
	for i := range spec.Containers {
		c := &spec.Containers[i]
		b.container(c, regular, podstatus.Find(b.old.ContainerStatuses, c.Name), &s.ContainerStatuses[i])
	}
	s.EphemeralContainerStatuses = statusList(len(spec.EphemeralContainers))
	for i := range spec.EphemeralContainers {
		c := (*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)
		b.container(c, ephemeral, podstatus.Find(b.old.EphemeralContainerStatuses, c.Name), &s.EphemeralContainerStatuses[i])
	}
	slices.SortStableFunc(s.ContainerStatuses, podstatus.ByName)
	slices.SortStableFunc(s.EphemeralContainerStatuses, podstatus.ByName)
}

// statusList returns nil instead of an empty list, like a decoded status.
func statusList(n int) []v1.ContainerStatus {
	if n == 0 {
		return nil
	}
	return make([]v1.ContainerStatus, n)
}

func (b *builder) preallocate() {
	spec := &b.in.Pod.Spec
	mounts := 0
	for i := range spec.InitContainers {
		mounts += len(spec.InitContainers[i].VolumeMounts)
	}
	for i := range spec.Containers {
		mounts += len(spec.Containers[i].VolumeMounts)
	}
	for i := range spec.EphemeralContainers {
		mounts += len(spec.EphemeralContainers[i].VolumeMounts)
	}
	b.cells = make([]cell, len(spec.InitContainers)+len(spec.Containers)+len(spec.EphemeralContainers))
	b.mounts = make([]v1.VolumeMountStatus, 0, mounts)
}

func (b *builder) cell() *cell {
	next := &b.cells[0]
	b.cells = b.cells[1:]
	return next
}

func (b *builder) container(c *v1.Container, k kind, old, out *v1.ContainerStatus) {
	x := &subject{Container: c, kind: k, old: old, cell: b.cell()}
	x.newest, x.before = b.instances(c.Name)
	if x.newest != nil {
		b.convert(x, out)
	} else {
		b.unseen(x, out)
	}
	b.explainWait(x, out)
	out.VolumeMounts = b.volumeMounts(c)
	b.applyProbes(x, out)
}

// newContainerStatus returns the status of a container without an instance: waiting, with the
// restart count and the last termination of old.
func (b *builder) newContainerStatus(c *v1.Container, old *v1.ContainerStatus) v1.ContainerStatus {
	reason := ReasonContainerCreating
	if len(b.in.Pod.Spec.InitContainers) > 0 {
		reason = ReasonPodInitializing
	}
	status := v1.ContainerStatus{Name: c.Name, Image: c.Image, State: waiting(reason, "")}
	if old != nil {
		status.RestartCount = old.RestartCount
		status.LastTerminationState = copyState(old.LastTerminationState)
	}
	return status
}

// unseen computes the status of a container that the runtime does not list.
func (b *builder) unseen(x *subject, out *v1.ContainerStatus) {
	old := x.old
	if old != nil && !b.observed() {
		old.DeepCopyInto(out)
		return
	}
	*out = b.newContainerStatus(x.Container, old)
	switch {
	case b.restartAll && old != nil && (old.State.Running != nil || old.State.Terminated != nil):
		const message = "The container is removed because RestartAllContainers in place"
		out.State = waiting(ReasonRestartingAllContainers, message)
		out.LastTerminationState = podstatus.UnseenEnd(ReasonRestartingAllContainers, message)
		if ended := old.State.Terminated; ended != nil {
			// The real end was seen. This reason makes the container restart under every restart
			// policy.
			*out.LastTerminationState.Terminated = *ended
			out.LastTerminationState.Terminated.Reason = ReasonRestartingAllContainers
		}
		out.RestartCount++
	case old != nil && old.State.Terminated != nil:
		old.DeepCopyInto(out)
	case old != nil && old.State.Waiting != nil && old.State.Waiting.Reason == ReasonRestartingAllContainers:
		out.State = copyState(old.State)
	case x.kind == plainInit && b.regularRan && !b.restartAll:
		// The runtime lost the record, for example by garbage collection. The container must have
		// succeeded, because a regular container ran.
		out.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason: ReasonCompleted, Message: "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
		}}
	case old == nil:
	case old.State.Running != nil && out.LastTerminationState.Terminated == nil:
		out.LastTerminationState = podstatus.UnseenEnd(ReasonContainerStatusUnknown, "The container could not be located when the pod was deleted.  The container used to be Running")
		if b.in.Pod.DeletionTimestamp == nil {
			out.RestartCount++
		}
	}
}

// explainWait sets a container that should have started to waiting, with the reason of the failed
// start.
func (b *builder) explainWait(x *subject, out *v1.ContainerStatus) {
	failure, failed := b.in.StartFailures[x.Name]
	if !failed || !b.observed() || !b.shouldStart(x) {
		return
	}
	if x.kind == plainInit && x.newest == nil && b.regularRan {
		return // the container has succeeded, so the failure is outdated
	}
	if ended := out.State.Terminated; ended != nil {
		if x.newest == nil {
			// The next instance does not exist yet, so the status has no container ID.
			*out = b.newContainerStatus(x.Container, x.old)
		}
		out.LastTerminationState = v1.ContainerState{Terminated: ended}
	}
	out.State = waiting(failure.Reason, failure.Message)
}

func (b *builder) shouldStart(x *subject) bool {
	switch {
	case b.in.Pod.DeletionTimestamp != nil:
		return false
	case x.newest == nil:
		// The previous status may contain a final end that the runtime has lost.
		return b.restartAll || x.old == nil || x.old.State.Terminated == nil || podstatus.MayRestart(b.in.Pod, x.Container, x.old.State.Terminated)
	case x.newest.State == observed.StateRunning:
		return false
	case x.newest.State != observed.StateExited:
		return true
	case b.in.Terminal, x.kind == ephemeral:
		return false
	case (x.kind == plainInit || x.kind == sidecar) && x.newest.ExitCode == 0:
		return false
	}
	return podfacts.MayRestart(b.in.Pod, x.Container, x.newest.ExitCode)
}

func (b *builder) volumeMounts(c *v1.Container) []v1.VolumeMountStatus {
	if len(c.VolumeMounts) == 0 {
		return nil
	}
	start := len(b.mounts)
	for i := range c.VolumeMounts {
		mount := &c.VolumeMounts[i]
		status := v1.VolumeMountStatus{Name: mount.Name, MountPath: mount.MountPath, ReadOnly: mount.ReadOnly}
		if mount.ReadOnly {
			wanted := mount.RecursiveReadOnly
			status.RecursiveReadOnly = b.recursive(wanted != nil && *wanted != v1.RecursiveReadOnlyDisabled && b.in.RecursiveReadOnly)
		}
		b.mounts = append(b.mounts, status)
	}
	return slices.Clip(b.mounts[start:])
}

// recursive returns the mode of a read-only mount. All mounts of a pod share two values.
func (b *builder) recursive(enabled bool) *v1.RecursiveReadOnlyMode {
	if b.modes == nil {
		b.modes = &[2]v1.RecursiveReadOnlyMode{v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyEnabled}
	}
	if enabled {
		return &b.modes[1]
	}
	return &b.modes[0]
}

func waiting(reason, message string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func copyState(s v1.ContainerState) (out v1.ContainerState) {
	s.DeepCopyInto(&out)
	return out
}
