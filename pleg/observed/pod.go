package observed

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Pod is the state of one pod in the runtime. Without sandboxes and containers it
// is a pod that the runtime does not have; then only UID and ObservedAt are set.
//
// Readers share a Pod that a pleg.PLEG returned. They must not change it.
type Pod struct {
	UID       types.UID
	Name      string
	Namespace string
	// Source is the source of the pod at the creation of its newest sandbox, such as "file". It is
	// empty when unknown.
	Source string
	// IPs are the pod's addresses, the primary one first. They come from the
	// newest sandbox and are kept when its network is torn down.
	IPs []string
	// Sandboxes are ordered newest first: by attempt, then creation, then ID.
	Sandboxes []Sandbox
	// Containers are ordered newest first. A name may occur several times:
	// exited instances stay until they are removed.
	Containers []Container
	// ObservedAt is the start of the query that returned this state, by this process's clock
	// with its monotonic reading. Earlier changes in the runtime are included. Zero before the
	// first query.
	ObservedAt time.Time
}

// Newest returns the newest instance of the named container, as a pointer into Containers, or
// nil.
func (s *Pod) Newest(name string) *Container {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}

// Running returns the running containers, newest first.
func (s *Pod) Running() []Container {
	var out []Container
	for _, c := range s.Containers {
		if c.State == StateRunning {
			out = append(out, c)
		}
	}
	return out
}

// Empty reports whether the runtime has neither a sandbox nor a container of the pod.
func (s *Pod) Empty() bool { return len(s.Sandboxes) == 0 && len(s.Containers) == 0 }

// Stopped reports whether no container runs and no sandbox is ready. An unknown state counts as
// running or ready.
func (s *Pod) Stopped() bool {
	return !slices.ContainsFunc(s.Containers, func(c Container) bool { return c.State.mayRun() }) &&
		!slices.ContainsFunc(s.Sandboxes, func(sb Sandbox) bool { return sb.State.mayRun() })
}
