package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/pleg"
)

// convert turns an instance that the runtime has into a container status. old is
// the container's previous status or nil, possibly of another instance.
func (b *builder) convert(c *v1.Container, instance *pleg.ContainerStatus, old *v1.ContainerStatus) v1.ContainerStatus {
	status := v1.ContainerStatus{
		Name:         c.Name,
		Image:        instance.Image,
		ImageID:      instance.ImageRef,
		ContainerID:  instance.ID.String(),
		RestartCount: instance.RestartCount,
		User:         user(instance.User),
	}
	if status.Image == "" {
		status.Image = c.Image
	}
	if signal := v1.Signal(instance.StopSignal); b.in.StopSignals && signal != "" {
		status.StopSignal = &signal
	}
	status.State = b.state(instance, old)
	if old != nil {
		carry(&status, instance, old)
	}
	allocated, ok := b.in.Allocated[c.Name]
	if !ok {
		allocated = c.Resources
	}
	status.AllocatedResources = allocated.Requests.DeepCopy()
	status.Resources = resources(allocated, &status, instance, old)
	return status
}

// state is an instance's state. One that the runtime does not know any more but
// that ran has ended, with an exit code that nobody saw.
func (b *builder) state(instance *pleg.ContainerStatus, old *v1.ContainerStatus) v1.ContainerState {
	id := instance.ID.String()
	switch instance.State {
	case pleg.StateRunning:
		return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(instance.StartedAt)}}
	case pleg.StateExited:
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: instance.ExitCode, Reason: instance.Reason, Message: instance.Message, ContainerID: id,
			StartedAt: metav1.NewTime(instance.StartedAt), FinishedAt: metav1.NewTime(instance.FinishedAt),
		}}
	case pleg.StateCreated:
		return waiting("", "")
	}
	switch {
	case old != nil && old.State.Terminated != nil && old.ContainerID == id:
		return *old.State.DeepCopy()
	case old != nil && old.State.Running != nil:
		reason := ReasonContainerStatusUnknown
		if b.restartAll {
			reason = ReasonRestartingAllContainers
		}
		state := unseenEnd(reason, "The runtime does not know the container's state")
		state.Terminated.StartedAt, state.Terminated.ContainerID = old.State.Running.StartedAt, id
		return state
	default:
		return waiting("", "")
	}
}

// carry takes over what the previous status knows: the restart count never
// shrinks, and the last termination stays until there is a newer one.
func carry(status *v1.ContainerStatus, instance *pleg.ContainerStatus, old *v1.ContainerStatus) {
	replaced := old.ContainerID != status.ContainerID
	ended := old.State.Terminated
	count := status.RestartCount
	status.RestartCount = max(count, old.RestartCount)
	switch {
	case instance.State == pleg.StateUnknown && old.State.Running != nil:
		status.RestartCount = max(count, old.RestartCount+1)
	case instance.State == pleg.StateRunning && replaced && ended != nil && !unseenReason(ended.Reason) && old.RestartCount >= count:
		// The runtime lost count: this is one restart more. An end that nobody
		// saw has been counted when it was noticed.
		status.RestartCount = old.RestartCount + 1
	}
	last := &old.LastTerminationState
	if replaced && ended != nil {
		last = &old.State
	}
	if status.State.Terminated != nil && last.Terminated != nil && last.Terminated.ContainerID != "" &&
		last.Terminated.ContainerID == status.State.Terminated.ContainerID {
		return // it is the current end, moved aside by a wait that is over
	}
	status.LastTerminationState = *last.DeepCopy()
}

func unseenReason(reason string) bool {
	return reason == ReasonContainerStatusUnknown || reason == ReasonRestartingAllContainers
}

func user(u *pleg.ContainerUser) *v1.ContainerUser {
	if u == nil {
		return nil
	}
	return &v1.ContainerUser{Linux: &v1.LinuxContainerUser{
		UID: u.UID, GID: u.GID, SupplementalGroups: append([]int64(nil), u.SupplementalGroups...),
	}}
}

// The kernel's floors: what is asked for below them is not told apart.
const (
	minCPULimit   = 10 // thousandths of a CPU
	minCPURequest = 2
)

// resources are what a container has: what it was granted, overlaid with what the
// runtime reports for a running one.
func resources(allocated v1.ResourceRequirements, status *v1.ContainerStatus, instance *pleg.ContainerStatus, old *v1.ContainerStatus) *v1.ResourceRequirements {
	out := allocated.DeepCopy()
	if status.State.Running == nil {
		return out
	}
	var reported pleg.ContainerResources
	if instance.Resources != nil {
		reported = *instance.Resources
	}
	var before v1.ResourceRequirements
	if old != nil && old.Resources != nil && old.State.Running != nil && old.ContainerID == status.ContainerID {
		before = *old.Resources
	}
	overlay(out.Limits, before.Limits, v1.ResourceCPU, milli(reported.MilliCPULimit), minCPULimit)
	overlay(out.Limits, before.Limits, v1.ResourceMemory, bytes(reported.MemoryLimit), 0)
	overlay(out.Requests, before.Requests, v1.ResourceCPU, milli(reported.MilliCPURequest), minCPURequest)
	overlay(out.Requests, before.Requests, v1.ResourceMemory, nil, 0)
	return out
}

// overlay puts the reported value, or else the one reported before, over the
// granted one in list. floor is in thousandths.
func overlay(list, before v1.ResourceList, name v1.ResourceName, reported *resource.Quantity, floor int64) {
	if list == nil {
		return
	}
	granted := list[name]
	switch {
	case reported == nil:
		if q, ok := before[name]; ok {
			list[name] = q.DeepCopy()
		}
	case reported.Cmp(granted) == 0:
	case floor > 0 && reported.MilliValue() <= floor && granted.MilliValue() <= floor:
	default:
		list[name] = *reported
	}
}

func milli(v *int64) *resource.Quantity {
	if v == nil {
		return nil
	}
	return resource.NewMilliQuantity(*v, resource.DecimalSI)
}

func bytes(v *int64) *resource.Quantity {
	if v == nil {
		return nil
	}
	return resource.NewQuantity(*v, resource.BinarySI)
}
