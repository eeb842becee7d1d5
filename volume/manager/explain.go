package manager

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// VolumeState says how a volume stands for a pod.
type VolumeState struct {
	// Name is the volume's in the pod's spec; that of its folder if the pod does not use
	// it, but it was found on disk.
	Name string
	// Plugin is the name of its plugin; empty as long as the volume could not be resolved.
	Plugin string
	State  State
	// Since is when it entered State; zero before it was first mounted.
	Since time.Time
	// Block tells that it is a device and not a file system.
	Block bool
	// Ready tells that containers may use it.
	Ready bool
	// WaitsFor says what happens next, or has to, in words. Empty means that nothing is
	// to be done.
	WaitsFor string
	// Operation is what runs for it, and RunningSince when that began. Empty if nothing
	// runs. Stuck tells that its time is over and that it has not returned.
	Operation    string
	RunningSince time.Time
	Stuck        bool
	// LastError is how the last operation failed, at LastErrorAt. Nil after success.
	LastError   error
	LastErrorAt time.Time
	// NextTry is when it is tried again. Zero if that is not a matter of time.
	NextTry time.Time
}

// String explains the volume in one line.
func (s VolumeState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", s.Name, s.State)
	if s.Operation != "" {
		fmt.Fprintf(&b, ", %s since %s", s.Operation, s.RunningSince.Format(time.RFC3339))
		if s.Stuck {
			b.WriteString(" although its time is over")
		}
	} else if s.WaitsFor != "" {
		fmt.Fprintf(&b, ", waits for %s", s.WaitsFor)
	}
	if s.LastError != nil {
		fmt.Fprintf(&b, ", last error: %v", s.LastError)
	}
	if !s.NextTry.IsZero() {
		fmt.Fprintf(&b, ", next try at %s", s.NextTry.Format(time.RFC3339))
	}
	return b.String()
}

// explain lists the volumes that a pod uses, in the order of its spec, and then those
// that it has beside them. An entry for the whole pod comes last if something is done
// to it, or has failed.
func (w *world) explain(p *podState, now time.Time) (out []VolumeState) {
	for _, name := range p.order {
		n := p.names[name]
		s := VolumeState{Name: name}
		if n.volume != nil {
			s = w.stateOf(n.volume, now)
			s.Name = name
		}
		if n.err != nil {
			s.LastError, s.LastErrorAt = n.err, n.errAt
			s.WaitsFor, s.NextTry = "the next try to resolve it", n.retry.at
		}
		if !n.reading.IsZero() {
			s.Operation, s.RunningSince, s.NextTry = "read its claim", n.reading, time.Time{}
		}
		out = append(out, s)
	}
	for _, v := range p.rest() {
		out = append(out, w.stateOf(v, now))
	}
	if p.releasing && (p.op != nil || p.err != nil) {
		s := VolumeState{Name: "(folders)"}
		w.explainUnit(&s, p, now)
		out = append(out, s)
	}
	return out
}

func (w *world) stateOf(v *volumeState, now time.Time) VolumeState {
	s := VolumeState{Name: v.key.name, Plugin: v.key.plugin, State: v.state, Since: v.since, Block: v.key.block, Ready: v.ready()}
	w.explainUnit(&s, v, now)
	return s
}

// explainUnit tells of an actor, or of the one that it waits for.
func (w *world) explainUnit(s *VolumeState, a actor, now time.Time) {
	for a != nil {
		u, next := a.base(), a.next(w, now)
		if s.WaitsFor == "" {
			if s.WaitsFor = next.why; next.do != doNothing {
				s.WaitsFor = "the begin of " + next.do.String()
			}
		}
		if u.err != nil {
			s.LastError, s.LastErrorAt = u.err, u.errAt
		}
		if op := u.op; op != nil {
			s.Operation, s.RunningSince, s.Stuck = op.kind.String(), op.began, op.stuck
			return
		}
		if next.on == nil && u.retry.at.After(now) {
			s.NextTry = u.retry.at
		}
		a = next.on
	}
}

// NotReadyError is what Prepare and Release return when not all is done that could be
// done at once. The manager goes on by itself, also after the call.
type NotReadyError struct {
	// Pod names the pod.
	Pod string
	// UID is the pod's.
	UID types.UID
	// Action is "mount" or "unmount".
	Action string
	// Volumes are those that are not ready, or not gone.
	Volumes []VolumeState
	// Err is why it was not waited any longer, if that is not that nothing goes on.
	Err error
}

// Error names each volume, why it is not ready, and when it is tried next.
func (e *NotReadyError) Error() string {
	texts := make([]string, len(e.Volumes))
	for i, v := range e.Volumes {
		texts[i] = v.String()
	}
	text := fmt.Sprintf("pod %s: cannot %s volumes yet: %s", e.Pod, e.Action, strings.Join(texts, "; "))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// EventMessage is the message of the Kubernetes event that tells of the error: it stays the
// same however often the same is tried, so that events of it are counted.
func (e *NotReadyError) EventMessage() string {
	texts := make([]string, len(e.Volumes))
	for i, v := range e.Volumes {
		switch texts[i] = v.Name; {
		case v.LastError != nil:
			texts[i] += ": " + v.LastError.Error()
		case v.WaitsFor != "":
			texts[i] += ": waits for " + v.WaitsFor
		case v.Operation != "":
			texts[i] += ": " + v.Operation + " goes on"
		}
	}
	return fmt.Sprintf("cannot %s volumes yet: %s", e.Action, strings.Join(texts, "; "))
}

// Unwrap returns the errors of the volumes.
func (e *NotReadyError) Unwrap() (errs []error) {
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	for _, v := range e.Volumes {
		if v.LastError != nil {
			errs = append(errs, v.LastError)
		}
	}
	return errs
}

// NotBefore is when the first of the volumes is tried again; zero if that is not a
// matter of time. With it the error is one of podworkers.Backoff.
func (e *NotReadyError) NotBefore() (first time.Time) {
	for _, v := range e.Volumes {
		if at := v.NextTry; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
