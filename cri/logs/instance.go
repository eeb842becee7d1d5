package logs

import (
	"errors"
	"fmt"
)

var (
	// ErrNoLogs is wrapped by the error for a container without an instance whose log can be read,
	// such as a container that waits for its image.
	ErrNoLogs = errors.New("no logs")
	// ErrNoPrevious is wrapped by the error for a container without an earlier instance in its
	// pod's status.
	ErrNoPrevious = errors.New("no previous instance")
)

// State is the state of a container of a pod.
type State string

// The states of a container, as in its pod's status.
const (
	StateWaiting    State = "Waiting"
	StateRunning    State = "Running"
	StateTerminated State = "Terminated"
)

// Instances are the instances of a container in its pod's status.
type Instances struct {
	// Container is the container's name, for errors.
	Container string
	// State is "" if the status contains none.
	State State
	// Reason is the reason for the state Waiting.
	Reason string
	// ID is the instance of state Running or Terminated; may be "".
	ID string
	// LastID is the instance that terminated before, or "".
	LastID string
}

// Choose returns the ID of the instance whose log a request refers to. With previous it is the
// instance that terminated before. Otherwise it is the running or terminated instance; while the
// container waits, such as between two crashes, it is the instance before. The error wraps
// ErrNoLogs or ErrNoPrevious; for a waiting container it contains the reason.
func (i Instances) Choose(previous bool) (string, error) {
	switch {
	case previous && i.LastID == "":
		return "", fmt.Errorf("%w: previous terminated container %q not found", ErrNoPrevious, i.Container)
	case previous:
		return i.LastID, nil
	case i.ID != "" && (i.State == StateRunning || i.State == StateTerminated):
		return i.ID, nil
	case i.LastID != "" && i.State != StateRunning:
		return i.LastID, nil
	}
	return "", i.none()
}

func (i Instances) none() error {
	switch {
	case i.State == StateTerminated:
		return fmt.Errorf("%w: container %q has terminated and was removed", ErrNoLogs, i.Container)
	case i.State == StateRunning:
		return fmt.Errorf("%w: container %q is running, but its ID is not available yet", ErrNoLogs, i.Container)
	case i.State == "":
		return fmt.Errorf("%w: container %q is not available", ErrNoLogs, i.Container)
	case i.Reason == "ErrImagePull":
		return fmt.Errorf("%w: container %q is waiting to start: ErrImagePull: image can't be pulled", ErrNoLogs, i.Container)
	case i.Reason == "ImagePullBackOff":
		return fmt.Errorf("%w: container %q is waiting to start: ImagePullBackOff: trying and failing to pull image", ErrNoLogs, i.Container)
	case i.Reason == "":
		return fmt.Errorf("%w: container %q is waiting to start", ErrNoLogs, i.Container)
	}
	return fmt.Errorf("%w: container %q is waiting to start: %s", ErrNoLogs, i.Container, i.Reason)
}
