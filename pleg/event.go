package pleg

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

// EventType is the kind of a change of a container, a sandbox or a pod.
type EventType string

// The event types that are delivered.
const (
	// Started: a container or sandbox started to run.
	Started EventType = "started"
	// Died: a container or sandbox no longer runs.
	Died EventType = "died"
	// Removed: the runtime no longer has a container or sandbox. If it was last seen running, a
	// Died comes first.
	Removed EventType = "removed"
	// PodSync: the pod needs attention without a change of a container's state. A Request
	// expected a change, an inspection succeeded again after failures, or events were merged
	// because OnEvent was too slow.
	PodSync EventType = "pod sync"

	// changed is a move to or from an unknown state. It causes an inspection and is never
	// delivered.
	changed EventType = "changed"
)

// Event is a hint that a pod has changed. It is comparable. The current state is in the cache.
type Event struct {
	UID  types.UID
	Type EventType
	// ID is the runtime's own ID of the container or sandbox, "" for PodSync.
	ID string
	// Container is the container's name, "" for a sandbox and for PodSync.
	Container string
	// Sandbox is true if ID is the ID of a sandbox.
	Sandbox bool
}

// String returns a short description for logs.
func (e Event) String() string {
	switch {
	case e.Type == PodSync:
		return fmt.Sprintf("%s %s", e.UID, e.Type)
	case e.Sandbox:
		return fmt.Sprintf("%s %s sandbox %s", e.UID, e.Type, e.ID)
	default:
		return fmt.Sprintf("%s %s container %s %s", e.UID, e.Type, e.Container, e.ID)
	}
}

// phase is the state of a container or sandbox for the diff. A created container counts as
// unknown.
type phase int8

const (
	absent phase = iota
	running
	exited
	unknown
)

func containerPhase(c *observed.ListedContainer) phase {
	switch {
	case c == nil:
		return absent
	case c.State == observed.StateRunning:
		return running
	case c.State == observed.StateExited:
		return exited
	default:
		return unknown
	}
}

func sandboxPhase(s *observed.ListedSandbox) phase {
	switch {
	case s == nil:
		return absent
	case s.State == observed.SandboxReady:
		return running
	case s.State == observed.SandboxNotReady:
		return exited
	default:
		return unknown
	}
}

// transition returns the events of a move from one phase to another.
func transition(from, to phase) []EventType {
	switch {
	case from == to:
		return nil
	case to == running:
		return []EventType{Started}
	case to == exited:
		return []EventType{Died}
	case to == unknown:
		return []EventType{changed}
	case from == exited:
		return []EventType{Removed}
	default:
		return []EventType{Died, Removed}
	}
}

// diff returns the events between two observations of one pod, including changes to unknown
// states: first for the old containers and sandboxes, then for new ones.
func diff(uid types.UID, from, to *observed.ListedPod) []Event {
	var out []Event
	add := func(e Event, a, b phase) {
		for _, t := range transition(a, b) {
			e.UID, e.Type = uid, t
			out = append(out, e)
		}
	}
	for i := range from.Containers {
		c := &from.Containers[i]
		add(Event{ID: c.ID.ID, Container: c.Name}, containerPhase(c), containerPhase(containerIn(to, c.ID)))
	}
	for i := range from.Sandboxes {
		s := &from.Sandboxes[i]
		add(Event{ID: s.ID, Sandbox: true}, sandboxPhase(s), sandboxPhase(sandboxIn(to, s.ID)))
	}
	for i := range to.Sandboxes {
		if s := &to.Sandboxes[i]; sandboxIn(from, s.ID) == nil {
			add(Event{ID: s.ID, Sandbox: true}, absent, sandboxPhase(s))
		}
	}
	for i := range to.Containers {
		if c := &to.Containers[i]; containerIn(from, c.ID) == nil {
			add(Event{ID: c.ID.ID, Container: c.Name}, absent, containerPhase(c))
		}
	}
	return out
}

// same reports whether two observations show the same containers and sandboxes in the same
// states. In contrast to the table of events, created and unknown are different states here, so
// that the cache has the right one.
//
// At each list it is called for every pod, so the usual case, the same order, takes one pass
// without allocation.
func same(a, b *observed.ListedPod) bool {
	if len(a.Containers) != len(b.Containers) || len(a.Sandboxes) != len(b.Sandboxes) {
		return false
	}
	for i := range a.Containers {
		x, y := &a.Containers[i], &b.Containers[i]
		if x.ID != y.ID {
			y = containerIn(b, x.ID)
		}
		if y == nil || x.State != y.State {
			return false
		}
	}
	for i := range a.Sandboxes {
		x, y := &a.Sandboxes[i], &b.Sandboxes[i]
		if x.ID != y.ID {
			y = sandboxIn(b, x.ID)
		}
		if y == nil || x.State != y.State {
			return false
		}
	}
	return true
}

func containerIn(p *observed.ListedPod, id observed.ContainerID) *observed.ListedContainer {
	for i := range p.Containers {
		if p.Containers[i].ID == id {
			return &p.Containers[i]
		}
	}
	return nil
}

func sandboxIn(p *observed.ListedPod, id string) *observed.ListedSandbox {
	for i := range p.Sandboxes {
		if p.Sandboxes[i].ID == id {
			return &p.Sandboxes[i]
		}
	}
	return nil
}

// delivered removes the events that are not delivered.
func delivered(events []Event) []Event {
	out := events[:0:0]
	for _, e := range events {
		if e.Type != changed {
			out = append(out, e)
		}
	}
	return out
}
