package observed

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Pod is all that the runtime knows of one pod. A pod that the runtime
// does not have is a Pod with nothing but the UID.
//
// A Pod that was handed out is shared between readers and never changed.
type Pod struct {
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
	Containers []Container
	// ObservedAt is the moment before the runtime was asked, by this process's
	// clock with its monotonic reading: everything that the runtime did before
	// it is in here. Zero when nobody asked yet.
	ObservedAt time.Time
}

// Newest returns the newest instance of the named container, or nil.
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

// Active returns the containers that belong to the current sandbox: the newest
// one, if it is ready. After a reboot the containers of the old sandbox are
// still known but no longer active.
func (s *Pod) Active() []Container {
	if len(s.Sandboxes) == 0 || s.Sandboxes[0].State != SandboxReady {
		return nil
	}
	var out []Container
	for _, c := range s.Containers {
		if c.SandboxID == s.Sandboxes[0].ID {
			out = append(out, c)
		}
	}
	return out
}

// Empty tells that the runtime has nothing of the pod.
func (s *Pod) Empty() bool { return len(s.Sandboxes) == 0 && len(s.Containers) == 0 }

// Stopped tells that no container runs and no sandbox is ready. A state that
// nobody knows counts as running.
func (s *Pod) Stopped() bool {
	return !slices.ContainsFunc(s.Containers, func(c Container) bool { return c.State.mayRun() }) &&
		!slices.ContainsFunc(s.Sandboxes, func(sb Sandbox) bool { return sb.State.mayRun() })
}
