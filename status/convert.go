package status

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// convert computes the status of a container from its newest instance. The instance before it
// becomes the last termination.
func (b *builder) convert(x *subject, out *v1.ContainerStatus) {
	known := ""
	if x.old != nil {
		known = x.old.ContainerID
	}
	instance := x.newest
	*out = v1.ContainerStatus{
		Name:         x.Name,
		Image:        instance.Image,
		ImageID:      instance.ImageRef,
		ContainerID:  idText(instance.ID, known),
		RestartCount: instance.RestartCount,
		User:         user(instance.User, x.cell),
	}
	if out.Image == "" {
		out.Image = x.Image
	}
	if b.in.StopSignals && instance.StopSignal != "" {
		x.signal = v1.Signal(instance.StopSignal)
		out.StopSignal = &x.signal
	}
	out.State = b.state(instance, out.ContainerID, x.old, &x.running)
	if instance.State == observed.StateCreated && out.RestartCount > 0 {
		// This instance has not restarted. If it never does, its replacement takes over its
		// number.
		out.RestartCount--
	}
	if x.old != nil {
		mergePrevious(out, instance, x.old)
	}
	if !b.before(x, out) {
		out.LastTerminationState = copyState(out.LastTerminationState)
	}
	b.setAllocated(x, out)
	if instance.State == observed.StateRunning {
		report(out, instance.Resources, x.old)
	}
}

// idText returns the text of id. It returns known without an allocation if that is equal.
func idText(id observed.ContainerID, known string) string {
	rest, ok := strings.CutPrefix(known, id.Runtime)
	if rest, hasID := strings.CutPrefix(rest, "://"); ok && hasID && rest == id.ID && rest != "" {
		return known
	}
	return id.String()
}

// state returns the state of an instance. An instance that ran and is now unknown to the runtime
// has ended with an unseen exit code. The state of a running instance may be stored in running.
func (b *builder) state(instance *observed.Container, id string, old *v1.ContainerStatus, running *v1.ContainerStateRunning) v1.ContainerState {
	switch instance.State {
	case observed.StateRunning:
		running.StartedAt = metav1.NewTime(instance.StartedAt)
		return v1.ContainerState{Running: running}
	case observed.StateExited:
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: instance.ExitCode, Reason: instance.Reason, Message: instance.Message, ContainerID: id,
			StartedAt: metav1.NewTime(instance.StartedAt), FinishedAt: metav1.NewTime(instance.FinishedAt),
		}}
	case observed.StateCreated:
		return waiting("", "")
	}
	switch {
	case old != nil && old.State.Terminated != nil && old.ContainerID == id:
		return copyState(old.State)
	case old != nil && id != "" && lastID(old.LastTerminationState) == id:
		return copyState(old.LastTerminationState)
	case old != nil && old.State.Running != nil:
		reason := ReasonContainerStatusUnknown
		if b.restartAll {
			reason = ReasonRestartingAllContainers
		}
		state := podstatus.UnseenEnd(reason, "The container could not be located when the pod was terminated")
		state.Terminated.StartedAt, state.Terminated.ContainerID = old.State.Running.StartedAt, id
		return state
	default:
		return waiting("", "")
	}
}

// before sets the last termination to the end of the instance before the newest. It reports
// whether there is such an end.
func (b *builder) before(x *subject, out *v1.ContainerStatus) bool {
	before, old := x.before, x.old
	if before == nil || before.State == observed.StateRunning {
		return false
	}
	id := idText(before.ID, lastID(out.LastTerminationState))
	if old != nil && old.ContainerID != id {
		old = nil
	}
	earlier := b.state(before, id, old, nil)
	if earlier.Terminated == nil {
		return false
	}
	out.LastTerminationState = earlier
	return true
}

func lastID(last v1.ContainerState) string {
	if last.Terminated == nil {
		return ""
	}
	return last.Terminated.ContainerID
}

// mergePrevious merges the previous status: the restart count never decreases, and the last
// termination stays until a newer one exists. The last termination still shares memory with old.
func mergePrevious(status *v1.ContainerStatus, instance *observed.Container, old *v1.ContainerStatus) {
	replaced := old.ContainerID != status.ContainerID
	ended := old.State.Terminated
	count := status.RestartCount
	status.RestartCount = max(count, old.RestartCount)
	switch {
	case instance.State == observed.StateUnknown && old.State.Running != nil:
		status.RestartCount = max(count, old.RestartCount+1)
	case instance.State == observed.StateRunning && replaced && ended != nil && !unseenReason(ended.Reason) && old.RestartCount >= count:
		// The runtime lost its count: this is one more restart. An unseen end was already
		// counted.
		status.RestartCount = old.RestartCount + 1
	}
	last := old.LastTerminationState
	if replaced && ended != nil {
		last = old.State
	}
	if status.State.Terminated != nil && last.Terminated != nil && last.Terminated.ContainerID != "" &&
		last.Terminated.ContainerID == status.State.Terminated.ContainerID {
		return // this is the current end, which a finished wait moved here
	}
	status.LastTerminationState = last
}

func unseenReason(reason string) bool {
	return reason == ReasonContainerStatusUnknown || reason == ReasonRestartingAllContainers
}

func user(u *observed.User, cell *cell) *v1.ContainerUser {
	if u == nil {
		return nil
	}
	cell.linux = v1.LinuxContainerUser{UID: u.UID, GID: u.GID, SupplementalGroups: append([]int64(nil), u.SupplementalGroups...)}
	cell.user.Linux = &cell.linux
	return &cell.user
}
