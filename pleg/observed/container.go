package observed

import (
	"fmt"
	"strings"
	"time"
)

// State is what a runtime says of a container. The zero value is StateUnknown:
// what nobody has seen is unknown, never assumed.
type State int8

// The states of a container.
const (
	StateUnknown State = iota
	StateCreated
	StateRunning
	StateExited
)

// String returns the lower-case name of the state.
func (s State) String() string {
	switch s {
	case StateCreated:
		return "created"
	case StateRunning:
		return "running"
	case StateExited:
		return "exited"
	default:
		return "unknown"
	}
}

// ContainerID names a container: the runtime's name and the runtime's own ID.
type ContainerID struct {
	// Runtime is the runtime's name, such as "containerd".
	Runtime string
	// ID is the runtime's own ID.
	ID string
}

// String returns the form used in v1.ContainerStatus, "containerd://<id>", and
// "" for the zero value.
func (c ContainerID) String() string {
	if c.ID == "" {
		return ""
	}
	return c.Runtime + "://" + c.ID
}

// ParseContainerID is the inverse of ContainerID.String.
func ParseContainerID(s string) (ContainerID, error) {
	if s == "" {
		return ContainerID{}, nil
	}
	runtime, id, ok := strings.Cut(s, "://")
	if !ok || id == "" {
		return ContainerID{}, fmt.Errorf("container ID %q: not of the form <runtime>://<id>", s)
	}
	return ContainerID{Runtime: runtime, ID: id}, nil
}

// Container is a container in detail.
type Container struct {
	ID   ContainerID
	Name string
	// SandboxID is the sandbox in which the container lives, if known.
	SandboxID string
	State     State
	// CreatedAt, StartedAt and FinishedAt are the runtime's times. StartedAt is
	// zero while created; FinishedAt is zero unless exited.
	CreatedAt, StartedAt, FinishedAt time.Time
	// ExitCode, Reason and Message are set only when exited.
	ExitCode        int32
	Reason, Message string
	// Image is the name the container was created with; ImageID the runtime's
	// ID of it; ImageRef its digested reference.
	Image, ImageID, ImageRef string
	// Hash is the hash of the container's spec at its creation (name and
	// image), 0 when unknown.
	Hash uint64
	// RestartCount counts the instances before this one.
	RestartCount int32
	// LogPath is the absolute path of the container's log, "" when unknown.
	LogPath string
	// Resources are the limits that the runtime reports, nil when it does not.
	Resources *Resources
	// User is the identity of the first process, nil when not reported.
	User *User
	// StopSignal is the signal that stops it, such as "SIGTERM"; "" when not
	// reported.
	StopSignal string
}

// Resources are the values a runtime reports for a running container;
// a nil field was not reported.
type Resources struct {
	// MilliCPURequest and MilliCPULimit are thousandths of a CPU.
	MilliCPURequest, MilliCPULimit *int64
	// MemoryLimit is in bytes.
	MemoryLimit *int64
}

// User is the identity of a container's first process on Linux.
type User struct {
	UID, GID           int64
	SupplementalGroups []int64
}

func (s State) mayRun() bool { return s == StateRunning || s == StateUnknown }
