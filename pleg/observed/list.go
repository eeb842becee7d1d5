package observed

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ListedPod is one pod in a list of the runtime: enough to detect that the pod
// changed, without the details.
type ListedPod struct {
	UID       types.UID
	Name      string
	Namespace string
	// Source is the same as Pod.Source.
	Source string
	// CreatedAt is the newest creation time of a sandbox or container, by the
	// runtime's clock. It orders pods; freshness does not depend on it.
	CreatedAt time.Time
	// Sandboxes are ordered newest first: by attempt, then creation, then ID.
	Sandboxes []ListedSandbox
	// Containers are ordered newest first.
	Containers []ListedContainer
}

// ListedSandbox is a sandbox in a list.
type ListedSandbox struct {
	ID    string
	State SandboxState
}

// ListedContainer is a container in a list.
type ListedContainer struct {
	ID    ContainerID
	Name  string
	State State
}

// Stopped reports the same as Pod.Stopped.
func (p *ListedPod) Stopped() bool {
	return !slices.ContainsFunc(p.Containers, func(c ListedContainer) bool { return c.State.mayRun() }) &&
		!slices.ContainsFunc(p.Sandboxes, func(sb ListedSandbox) bool { return sb.State.mayRun() })
}

// Listed returns the pod's entry in a list. A Runtime without a cheaper list may
// build its ListPods from it.
func (s *Pod) Listed() ListedPod {
	o := ListedPod{UID: s.UID, Name: s.Name, Namespace: s.Namespace, Source: s.Source}
	newest := func(t time.Time) {
		if t.After(o.CreatedAt) {
			o.CreatedAt = t
		}
	}
	if len(s.Sandboxes) > 0 {
		o.Sandboxes = make([]ListedSandbox, len(s.Sandboxes))
	}
	for i, sb := range s.Sandboxes {
		o.Sandboxes[i] = ListedSandbox{ID: sb.ID, State: sb.State}
		newest(sb.CreatedAt)
	}
	if len(s.Containers) > 0 {
		o.Containers = make([]ListedContainer, len(s.Containers))
	}
	for i, c := range s.Containers {
		o.Containers[i] = ListedContainer{ID: c.ID, Name: c.Name, State: c.State}
		newest(c.CreatedAt)
	}
	return o
}
