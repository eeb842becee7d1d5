package observed

import (
	"time"
)

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

func (s SandboxState) mayRun() bool { return s != SandboxNotReady }

// SandboxChange is the decision on a pod's sandboxes.
type SandboxChange struct {
	// Changed tells that the pod needs a new sandbox.
	Changed bool
	// Attempt is the attempt number of the new sandbox, or of the current one.
	Attempt uint32
	// ID is the current sandbox, or the one that is replaced; "" when none is
	// or when nothing is kept of it.
	ID string
}

// SandboxChanged decides whether a pod needs a new sandbox. hostNetwork is what
// the pod's spec asks for.
func (s *Pod) SandboxChanged(hostNetwork bool) SandboxChange {
	if len(s.Sandboxes) == 0 {
		return SandboxChange{Changed: true}
	}
	ready := 0
	for _, sb := range s.Sandboxes {
		if sb.State == SandboxReady {
			ready++
		}
	}
	newest := s.Sandboxes[0]
	next := SandboxChange{Changed: true, Attempt: newest.Attempt + 1, ID: newest.ID}
	switch {
	case ready > 1, newest.State != SandboxReady:
		return next
	case newest.HostNetwork != hostNetwork:
		next.ID = ""
		return next
	case !hostNetwork && newest.HasNetworkStatus && len(newest.IPs) == 0:
		return next
	}
	return SandboxChange{Attempt: newest.Attempt, ID: newest.ID}
}
