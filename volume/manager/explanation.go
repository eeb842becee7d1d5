package manager

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/podwright/podwright"
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

func (s VolumeState) explanation() podwright.Explanation {
	e := podwright.Explanation{
		Part: "volume " + s.Name, Step: s.Operation, Since: cmp.Or(s.RunningSince, s.Since), Err: s.LastError, NextTry: s.NextTry,
	}
	switch {
	case s.Stuck:
		e.Why = "its time is over"
	case s.Operation == "" && s.WaitsFor != "":
		e.Why = "it waits for " + s.WaitsFor
	}
	return e
}

// explain lists the volumes that a pod uses, in the order of its spec, and then those
// that it has beside them. An entry for the whole pod comes last if something is done
// to it, or has failed.
func (rc *reconciler) explain(p *podState, now time.Time) (out []VolumeState) {
	for _, name := range p.order {
		n := p.names[name]
		s := VolumeState{Name: name}
		if n.volume != nil {
			s = rc.stateOf(n.volume, now)
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
	for _, v := range p.unused() {
		out = append(out, rc.stateOf(v, now))
	}
	if p.releasing && (p.op != nil || p.err != nil) {
		s := VolumeState{Name: "(folders)"}
		rc.explainUnit(&s, p, now)
		out = append(out, s)
	}
	return out
}

func (rc *reconciler) stateOf(v *volumeState, now time.Time) VolumeState {
	s := VolumeState{Name: v.key.name, Plugin: v.key.plugin, State: v.state, Since: v.since, Block: v.key.block, Ready: v.ready()}
	rc.explainUnit(&s, v, now)
	return s
}

// explainUnit tells of an item, or of the one that it waits for.
func (rc *reconciler) explainUnit(s *VolumeState, a item, now time.Time) {
	for a != nil {
		u, next := a.base(), a.next(rc, now)
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
