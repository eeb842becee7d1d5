package podsyncer

import (
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
)

// Reasons of the Kubernetes events that a Syncer records.
const (
	ReasonNetworkNotReady = "NetworkNotReady"
	ReasonFailedSync      = "FailedSync"
	ReasonFailedKillPod   = "FailedKillPod"
	ReasonFailedPrepare   = "FailedToMakePodDataDirectories"
	ReasonResizeCompleted = "ResizeCompleted"
	ReasonResizeError     = "ResizeError"
)

type recorder podwright.EventFunc

func (r recorder) warn(pod *v1.Pod, reason string, err error) {
	r(podfacts.Reference(pod), v1.EventTypeWarning, reason, messageOf(err))
}

// messageOf returns the event message of an error: the result of its EventMessage method, for
// example without the time of the retry, or its text.
func messageOf(err error) string {
	var own interface{ EventMessage() string }
	if errors.As(err, &own) {
		return own.EventMessage()
	}
	return err.Error()
}

func (r recorder) normal(pod *v1.Pod, reason, message string) {
	r(podfacts.Reference(pod), v1.EventTypeNormal, reason, message)
}
