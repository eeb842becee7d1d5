package podstatus

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Reasons of terminated containers; package status documents them.
const (
	ReasonContainerStatusUnknown  = "ContainerStatusUnknown"
	ReasonRestartingAllContainers = "RestartingAllContainers"
)

func ByName(a, b v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }

// Termination returns the end of a terminated container, or the last end of a waiting one. It
// returns nil for a container that runs, has never ended, or is unknown.
func Termination(status *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case status == nil:
		return nil
	case status.State.Terminated != nil:
		return status.State.Terminated
	case status.State.Waiting != nil:
		return status.LastTerminationState.Terminated
	default:
		return nil
	}
}

// MayRestart reports whether a container may run again after this end.
func MayRestart(pod *v1.Pod, c *v1.Container, ended *v1.ContainerStateTerminated) bool {
	return ended.Reason == ReasonRestartingAllContainers || podfacts.MayRestart(pod, c, ended.ExitCode)
}

func Find(statuses []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

func IsTrue(b *bool) bool { return b != nil && *b }

// UnknownExitCode replaces an unseen exit code.
const UnknownExitCode = 137

// UnseenEnd returns the state of a container with an unseen end.
func UnseenEnd(reason, message string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: reason, Message: message, ExitCode: UnknownExitCode}}
}
