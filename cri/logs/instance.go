package logs

import (
	"errors"
	"fmt"
)

var (
	// ErrNoLogs is wrapped by the error for a container that has no instance
	// whose log could be read, such as one that waits for its image.
	ErrNoLogs = errors.New("no logs")
	// ErrNoPrevious is wrapped by the error for a container of which no earlier
	// instance is known.
	ErrNoPrevious = errors.New("no previous instance")
)

// State is what a container of a pod is doing.
type State string

// The states of a container, as in the status of its pod.
const (
	Waiting    State = "Waiting"
	Running    State = "Running"
	Terminated State = "Terminated"
)

// Instances are the instances of a container that its pod's status knows.
type Instances struct {
	// Container is the container's name, for errors.
	Container string
	// State is what the container is doing; "" if the status does not tell.
	State State
	// Reason is why it waits.
	Reason string
	// ID is the instance of State Running or Terminated; may be "".
	ID string
	// LastID is the instance that terminated before; "" if there is none.
	LastID string
}

// Choose returns the ID of the instance whose log a request is for. With previous
// that is the one that terminated before. Otherwise it is the one that runs or has
// terminated, and while the container waits, such as between two crashes, the one
// before. The error wraps ErrNoLogs or ErrNoPrevious and names what a container
// without any waits for.
func (i Instances) Choose(previous bool) (string, error) {
	switch {
	case previous && i.LastID == "":
		return "", fmt.Errorf("%w: previous terminated container %q not found", ErrNoPrevious, i.Container)
	case previous:
		return i.LastID, nil
	case i.ID != "" && (i.State == Running || i.State == Terminated):
		return i.ID, nil
	case i.LastID != "" && i.State != Running:
		return i.LastID, nil
	}
	return "", i.none()
}

// none tells why there is nothing to read.
func (i Instances) none() error {
	switch {
	case i.State == Terminated:
		return fmt.Errorf("%w: container %q has terminated and nothing of it is left", ErrNoLogs, i.Container)
	case i.State == Running:
		return fmt.Errorf("%w: container %q is running under an ID that is not known yet", ErrNoLogs, i.Container)
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
