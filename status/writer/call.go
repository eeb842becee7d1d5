package writer

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// nearEndLimit bounds the wait for the end of a pod with a deletion request whose containers have
// ended. Its resources are usually released within milliseconds; then one write reports
// everything.
const nearEndLimit = 500 * time.Millisecond

type call struct {
	kind     flight
	ref      status.Ref
	version  uint64
	pod      *v1.Pod
	old, new *v1.PodStatus
	// partial is true if new lacks the terminal phase of the pod.
	partial bool
}

// facts are the state outside of a slot on which a call depends.
type facts struct {
	pod         *v1.Pod // the newest one, nil if unknown
	mirror      *v1.Pod // may be nil
	mayStillRun bool
	now         time.Time
}

// next returns the next call, or false without one. The caller must call done after each call.
func (s *slot) next(f facts) (c call, ok bool) {
	if s.dropped {
		if s.at.After(f.now) {
			return c, false
		}
		return s.call(call{kind: deleting, pod: s.pod}), true
	}
	s.refresh(f)
	f.mayStillRun = f.mayStillRun && !s.finished
	for s.toWrite() || s.toDelete() {
		switch {
		case s.ref.UID == "":
			s.postpone(noMirror, f.now.Add(resync))
			return c, false
		case s.at.After(f.now):
			return c, false
		case s.receives:
			s.begin()
			return s.call(call{kind: receiving, pod: s.pod, new: s.status}), true
		case s.base == nil && s.origin && !podfacts.IsStatic(s.pod):
			s.setBase(s.pod)
		case s.base == nil:
			return s.call(call{kind: getting}), true
		case !s.toWrite():
			return s.call(call{kind: deleting}), true
		default:
			if c, ok = s.compare(f); ok {
				return s.call(c), true
			}
		}
	}
	return c, false
}

func (s *slot) call(c call) call {
	s.flight = c.kind
	c.ref, c.version = s.ref, s.version
	return c
}

// begin includes all changes in the next call.
func (s *slot) begin() { s.writing, s.since = s.since, time.Time{} }

// compare returns the patch that brings the sink to the newest status. If the sink already has
// it, compare returns no patch and the status counts as accepted.
func (s *slot) compare(f facts) (call, bool) {
	old, new := s.base.status, s.merged(f)
	partial := f.mayStillRun && podfacts.IsTerminalPhase(s.status.Phase) && !podfacts.IsTerminalPhase(old.Phase)
	if s.endIsNear(partial, f.now) {
		s.postpone(nearEnd, s.endBy)
		return call{}, false
	}
	s.begin()
	if podstatus.Equal(old, &new) {
		s.written(s.version, partial, f.now)
		return call{}, false
	}
	return call{kind: patching, old: old, new: &new, partial: partial}, true
}

func (s *slot) endIsNear(partial bool, now time.Time) bool {
	switch {
	case !partial || !s.deleting || s.failures > 0:
		s.endBy = time.Time{}
	case s.endBy.IsZero():
		s.endBy = now.Add(nearEndLimit)
	}
	return s.endBy.After(now)
}

// merged returns the desired status of the sink, based on its current one.
func (s *slot) merged(f facts) v1.PodStatus {
	current := &v1.Pod{Status: *s.base.status}
	if podfacts.IsStatic(s.pod) { // a static pod can restart after its end
		current.Annotations = map[string]string{podfacts.ConfigMirror: ""}
	}
	wanted := podstatus.Own(s.status)
	return podstatus.Merge(current, &wanted, f.mayStillRun, f.now)
}
