package observed

import "time"

// SandboxState is the state of a sandbox as its runtime reports it. The zero value
// is SandboxUnknown.
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

func (s SandboxState) mayRun() bool { return s != SandboxNotReady }

// Sandbox is a pod sandbox in detail.
type Sandbox struct {
	ID string
	// Name and Namespace are the pod's at the creation of the sandbox, empty when
	// unknown.
	Name, Namespace string

	State     SandboxState
	Attempt   uint32
	CreatedAt time.Time
	// HostNetwork is true if the sandbox uses the node's network namespace.
	HostNetwork bool
	// HasNetworkStatus is true if the runtime reported the network's state; only
	// then do empty IPs mean that the sandbox has lost its address.
	HasNetworkStatus bool
	// IPs are the addresses that the runtime reports, the primary one first.
	IPs []string
}

// SandboxChange is the decision on a pod's sandboxes.
type SandboxChange struct {
	// Changed is true if the pod needs a new sandbox.
	Changed bool
	// Attempt is the attempt number of the new sandbox, or of the current one.
	Attempt uint32
	// ID is the current sandbox or, if Changed, the sandbox to replace. It is ""
	// without a sandbox and if only its network namespace is wrong.
	ID string
}

// SandboxChanged decides whether a pod needs a new sandbox: it has none, the newest is not ready
// or its state is unknown, several are ready, the newest has the wrong network namespace, or its
// reported network has no address. hostNetwork is the value of the pod's spec.
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
