package observed

import "time"

// State is the state of a container as its runtime reports it. The zero value is
// StateUnknown.
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

// mayRun reports whether a container in the state may have a process.
func (s State) mayRun() bool { return s == StateRunning || s == StateUnknown }

// ContainerID identifies a container by the runtime's name and the runtime's own ID.
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

// Container is a container in detail.
type Container struct {
	ID   ContainerID
	Name string
	// SandboxID is the ID of the container's sandbox, "" when unknown.
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
	// Resources are the values that the runtime reports, nil without a report.
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
