package podsyncer

import (
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
)

// The reasons of the Kubernetes events that a Syncer records.
const (
	ReasonNetworkNotReady = "NetworkNotReady"
	ReasonFailedSync      = "FailedSync"
	ReasonFailedKillPod   = "FailedKillPod"
	ReasonFailedPrepare   = "FailedToMakePodDataDirectories"
	ReasonResizeCompleted = "ResizeCompleted"
	ReasonResizeError     = "ResizeError"
)

// recorder takes Kubernetes events.
type recorder podwright.EventFunc

// warn records that something went wrong with a pod.
func (r recorder) warn(pod *v1.Pod, reason string, err error) {
	r(podfacts.Reference(pod), v1.EventTypeWarning, reason, messageOf(err))
}

// messageOf is what an event tells of an error: what the error has an EventMessage method
// for, such as to leave out when it is tried again, else its text.
func messageOf(err error) string {
	var own interface{ EventMessage() string }
	if errors.As(err, &own) {
		return own.EventMessage()
	}
	return err.Error()
}

// normal records what has become of a pod.
func (r recorder) normal(pod *v1.Pod, reason, message string) {
	r(podfacts.Reference(pod), v1.EventTypeNormal, reason, message)
}
