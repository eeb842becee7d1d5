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

// Termination is how a container that does not run ended: now, or before it
// began to wait. nil when it never ended, runs, or is not known.
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

// MayRestart tells whether a container that ended so may run again.
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

// UnknownExitCode stands for an exit code that nobody saw.
const UnknownExitCode = 137

// UnseenEnd is the end of a container that nobody saw.
func UnseenEnd(reason, message string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: reason, Message: message, ExitCode: UnknownExitCode}}
}
