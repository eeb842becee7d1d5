package manager

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/volume"
)

// Errors to test for.
var (
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = fields.AlreadyRun("manager")
	// ErrEnded is returned when Run has ended.
	ErrEnded = errors.New("manager: Run has ended")
	// ErrShutdownTimeout is wrapped by the error of Run when operations ignored that
	// their context has ended. They are named.
	ErrShutdownTimeout = errors.New("still running after the shutdown timeout")
	// ErrReleased is wrapped by the error of a Prepare during which the pod was released,
	// ErrPrepared by that of a Release during which it was prepared.
	ErrReleased = errors.New("it was released meanwhile")
	ErrPrepared = errors.New("it was prepared meanwhile")

	errGoexit = volume.Uncertain(errors.New("the plugin called runtime.Goexit"))
)

// NotReadyError is what Prepare and Release return when not all is done that could be
// done at once. The manager goes on by itself, also after the call.
type NotReadyError struct {
	// Pod names the pod.
	Pod string
	// UID is the pod's.
	UID types.UID
	// Action is "mount" or "unmount".
	Action string
	// Volumes are those that are not ready, or not gone.
	Volumes []VolumeState
	// Err is why it was not waited any longer, if that is not that nothing goes on.
	Err error
}

// Error names each volume, why it is not ready, and when it is tried next.
func (e *NotReadyError) Error() string {
	texts := make([]string, len(e.Volumes))
	for i, v := range e.Volumes {
		texts[i] = v.String()
	}
	text := fmt.Sprintf("pod %s: cannot %s volumes yet: %s", e.Pod, e.Action, strings.Join(texts, "; "))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// EventMessage is the message of the Kubernetes event that tells of the error: it stays the
// same however often the same is tried, so that events of it are counted.
func (e *NotReadyError) EventMessage() string {
	texts := make([]string, len(e.Volumes))
	for i, v := range e.Volumes {
		switch texts[i] = v.Name; {
		case v.LastError != nil:
			texts[i] += ": " + v.LastError.Error()
		case v.WaitsFor != "":
			texts[i] += ": waits for " + v.WaitsFor
		case v.Operation != "":
			texts[i] += ": " + v.Operation + " goes on"
		}
	}
	return fmt.Sprintf("cannot %s volumes yet: %s", e.Action, strings.Join(texts, "; "))
}

// Unwrap returns the errors of the volumes.
func (e *NotReadyError) Unwrap() (errs []error) {
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	for _, v := range e.Volumes {
		if v.LastError != nil {
			errs = append(errs, v.LastError)
		}
	}
	return errs
}

// NotBefore is when the first of the volumes is tried again; zero if that is not a
// matter of time. With it the error is one of podworkers.Backoff.
func (e *NotReadyError) NotBefore() (first time.Time) {
	for _, v := range e.Volumes {
		if at := v.NextTry; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// EventReason is the reason of the Kubernetes event that tells of the error: that of the
// first of the volumes' errors that has a method EventReason, else what has failed.
func (e *NotReadyError) EventReason() string {
	if e.Action == "unmount" {
		return ReasonFailedUnmount
	}
	block := len(e.Volumes) > 0
	for _, v := range e.Volumes {
		var own interface{ EventReason() string }
		if errors.As(v.LastError, &own) {
			return own.EventReason()
		}
		block = block && v.Block
	}
	if block {
		return ReasonFailedMapVolume
	}
	return ReasonFailedMount
}
