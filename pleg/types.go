package pleg

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// SandboxState is what a runtime says of a sandbox.
type SandboxState int8

// The states of a sandbox.
const (
	SandboxUnknown SandboxState = iota
	SandboxReady
	SandboxNotReady
)

// String returns the lower-case name of the state.
func (s SandboxState) String() string {
	switch s {
	case SandboxReady:
		return "ready"
	case SandboxNotReady:
		return "not ready"
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

// ObservedPod is one pod as a list of the runtime shows it: enough to see that
// something changed, not what exactly.
type ObservedPod struct {
	UID       types.UID
	Name      string
	Namespace string
	// CreatedAt is the newest creation time of a sandbox or container, by the
	// runtime's clock. It orders pods; it never decides freshness.
	CreatedAt time.Time
	// Sandboxes are ordered newest first: by attempt, then creation, then ID.
	Sandboxes []ObservedSandbox
	// Containers are ordered newest first.
	Containers []ObservedContainer
}

// ObservedSandbox is a sandbox in a list.
type ObservedSandbox struct {
	ID    string
	State SandboxState
}

// ObservedContainer is a container in a list.
type ObservedContainer struct {
	ID    ContainerID
	Name  string
	State State
}

// PodStatus is all that the runtime knows of one pod. A pod that the runtime
// does not have is a PodStatus with nothing but the UID.
//
// A PodStatus that was handed out is shared between readers and never changed.
type PodStatus struct {
	UID       types.UID
	Name      string
	Namespace string
	// IPs are the pod's addresses, the primary one first. They come from the
	// newest sandbox and are kept when its network is torn down.
	IPs []string
	// Sandboxes are ordered newest first: by attempt, then creation, then ID.
	Sandboxes []Sandbox
	// Containers are ordered newest first. A name may occur several times:
	// exited instances stay until they are removed.
	Containers []ContainerStatus
	// ObservedAt is the moment before the runtime was asked, by this process's
	// clock with its monotonic reading: everything that the runtime did before
	// it is in here. Zero when nobody asked yet.
	ObservedAt time.Time
}

// Sandbox is a pod sandbox in detail.
type Sandbox struct {
	ID string
	// Name and Namespace are those of the pod that the sandbox was made for; empty
	// when the runtime does not tell.
	Name, Namespace string

	State     SandboxState
	Attempt   uint32
	CreatedAt time.Time
	// HostNetwork tells that the sandbox uses the node's network namespace.
	HostNetwork bool
	// HasNetworkStatus tells that the runtime reported on the network at all;
	// only then does an empty IPs mean that the sandbox has lost its address.
	HasNetworkStatus bool
	// IPs are the addresses that the runtime reports, the primary one first.
	IPs []string
}

// ContainerStatus is a container in detail.
type ContainerStatus struct {
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
	Resources *ContainerResources
	// User is the identity of the first process, nil when not reported.
	User *ContainerUser
	// StopSignal is the signal that stops it, such as "SIGTERM"; "" when not
	// reported.
	StopSignal string
}

// ContainerResources are the values a runtime reports for a running container;
// a nil field was not reported.
type ContainerResources struct {
	// MilliCPURequest and MilliCPULimit are thousandths of a CPU.
	MilliCPURequest, MilliCPULimit *int64
	// MemoryLimit is in bytes.
	MemoryLimit *int64
}

// ContainerUser is the identity of a container's first process on Linux.
type ContainerUser struct {
	UID, GID           int64
	SupplementalGroups []int64
}

// Runtime is what an observer needs of a runtime, and nothing else. Anything
// that lists pods can implement it: a CRI runtime, a fleet of virtual machines,
// a remote device.
//
// Both methods are safe for concurrent use, bounded by their context, and
// return complete answers or an error: a pod or container that could not be
// looked at is never silently left out. What disappears between the list and
// the look at it is no error. A panic counts as an error, a PanicError.
type Runtime interface {
	// ListPods lists every pod with its sandboxes and containers in every
	// state, exited ones included.
	ListPods(ctx context.Context) ([]ObservedPod, error)
	// PodStatus looks at one pod in detail. A pod that does not exist is a
	// PodStatus with only the UID, and no error. It is called for different
	// pods, and at times twice for one, at the same time. ObservedAt is set by
	// the caller.
	PodStatus(ctx context.Context, uid types.UID) (*PodStatus, error)
}

// EventStream is an optional ability of a Runtime: it names pods as soon as
// something happens to them.
type EventStream interface {
	// PodEvents calls dirty with the UID of each pod to which something
	// happened. It blocks until the stream ends and always returns a non-nil
	// error; ErrNoEvents means that the runtime has none and asking again is
	// of no use until it is restarted. A hint may be lost, doubled, late or
	// out of order: it says "look at this pod" and nothing else. dirty never
	// blocks.
	PodEvents(ctx context.Context, dirty func(types.UID)) error
}
