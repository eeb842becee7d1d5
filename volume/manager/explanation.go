package manager

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/podwright/podwright"
)

// VolumeState is the state of a pod's volume.
type VolumeState struct {
	// Name is the volume's name in the pod's spec. For a volume that was only found on the disk
	// it is the name of the folder.
	Name string
	// Plugin is the name of the volume's plugin. It is empty until the volume is resolved.
	Plugin string
	State  State
	// Since is the time of the last change of State. It is zero before the first mount.
	Since time.Time
	// Block is true for a device, false for a file system.
	Block bool
	// Ready is true if containers may use the volume.
	Ready bool
	// WaitsFor describes the condition for the next step. It is empty if no step is necessary.
	WaitsFor string
	// Operation is the running operation, and RunningSince its start. Both are empty without
	// one. Stuck is true if the operation continues after its timeout.
	Operation    string
	RunningSince time.Time
	Stuck        bool
	// LastError is the error of the last operation, at the time LastErrorAt. It is nil after
	// success.
	LastError   error
	LastErrorAt time.Time
	// NextTry is the time of the next attempt. It is zero if no attempt is scheduled.
	NextTry time.Time

	spec   string // name of the volume's spec, or "" until it is resolved
	failed kind   // the operation of LastError, or doNothing for a failed resolution
}

// String describes the volume in one line.
func (s VolumeState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", s.Name, s.State)
	if s.Operation != "" {
		fmt.Fprintf(&b, ", %s since %s", s.Operation, s.RunningSince.Format(time.RFC3339))
		if s.Stuck {
			b.WriteString(", past its timeout")
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
		e.Why = "past its timeout"
	case s.Operation == "" && s.WaitsFor != "":
		e.Why = "it waits for " + s.WaitsFor
	}
	return e
}

// explain returns the states of the volumes that a pod uses, in the order of its spec, then of
// its other volumes. During a release, an entry for the pod's folders follows if an operation
// on them runs or has failed.
func (rc *reconciler) explain(p *podState, now time.Time) (out []VolumeState) {
	for _, name := range p.order {
		n := p.names[name]
		s := VolumeState{Name: name}
		if n.volume != nil {
			s = rc.stateOf(n.volume, now)
			s.Name = name
		}
		if n.err != nil {
			s.LastError, s.LastErrorAt, s.failed = n.err, n.errAt, doNothing
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
	s := VolumeState{Name: v.key.name, Plugin: v.key.plugin, State: v.state, Since: v.since, Block: v.key.block, Ready: v.ready(), spec: v.key.name}
	rc.explainUnit(&s, v, now)
	return s
}

// explainUnit adds the state of an item, or of the item that it waits for.
func (rc *reconciler) explainUnit(s *VolumeState, a item, now time.Time) {
	for a != nil {
		u, next := a.base(), a.next(rc, now)
		if s.WaitsFor == "" {
			if s.WaitsFor = next.why; next.do != doNothing {
				s.WaitsFor = "the start of " + next.do.String()
			}
		}
		if u.err != nil {
			s.LastError, s.LastErrorAt, s.failed = u.err, u.errAt, u.errOf
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
