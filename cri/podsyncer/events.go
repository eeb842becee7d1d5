package podsyncer

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
)

// Reasons of the Kubernetes events that a Syncer records.
const (
	reasonNetworkNotReady = "NetworkNotReady"
	reasonFailedSync      = "FailedSync"
	reasonFailedKillPod   = "FailedKillPod"
	reasonFailedPrepare   = "Failed"
	reasonResizeCompleted = "ResizeCompleted"
	reasonResizeError     = "ResizeError"
)

type recorder podwright.EventFunc

func (r recorder) warn(pod *v1.Pod, reason string, err error) {
	r(podfacts.Reference(pod), v1.EventTypeWarning, reason, message(reason, err))
}

// message returns the message of a warning: upstream's text for the reason, and the error.
func message(reason string, err error) string {
	text := messageOf(err)
	switch reason {
	case reasonNetworkNotReady:
		return fmt.Sprintf("network is not ready: %s", text)
	case reasonFailedSync:
		return fmt.Sprintf("error determining status: %s", text)
	case reasonFailedKillPod:
		return fmt.Sprintf("error killing pod: %s", text)
	case reasonFailedPrepare:
		return fmt.Sprintf("error making pod data directories: %s", text)
	default:
		return text
	}
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
