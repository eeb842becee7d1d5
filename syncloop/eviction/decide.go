package eviction

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Policy is what to evict for.
type Policy struct {
	// Thresholds are as Settings.Parse returns them.
	Thresholds []Threshold
	// Transition is for how long a condition stays after it was last seen.
	Transition time.Duration
	// MaxPodGrace is what pods get at most, in seconds, when a soft threshold acts.
	MaxPodGrace int64
	// LocalStorage has pods evicted that exceed their limits of local storage.
	LocalStorage bool
}

// watches tells whether there is anything to do.
func (p Policy) watches() bool { return p.LocalStorage || len(p.Thresholds) > 0 }

// key tells thresholds apart: there may be a hard and a soft one of a signal.
type key struct {
	signal Signal
	grace  time.Duration
}

func (t Threshold) key() key { return key{t.Signal, t.Grace} }

// State is what a decision remembers for the next one. The zero value is a start.
type State struct {
	met      map[key]bool      // thresholds that act until MinReclaim is there, too
	since    map[key]time.Time // when they were first met
	seen     map[v1.NodeConditionType]time.Time
	measured map[Signal]time.Time
}

// Reclaim is what the node can do without before a pod has to go.
type Reclaim struct{ DeadContainers, UnusedImages bool }

// Met is a threshold that acts.
type Met struct {
	Threshold Threshold
	Reading   Reading
}

// Decision is what is to be done. If Met is set, the node is first to do Reclaim, unless
// that helps the Candidate goes.
type Decision struct {
	// State is for the next decision.
	State State
	// Pressure is what the node is short of.
	Pressure Pressure
	// OverLimit are to be killed, all of them, and nobody else if one of them ends.
	OverLimit []Victim
	// Met is the threshold to act for. nil: none.
	Met *Met
	// Reclaim is what to try before a pod goes.
	Reclaim Reclaim
	// acting are all thresholds that act now.
	acting []Threshold
}

// Decide says what is to be done at now. It changes neither state nor pods. Pods are the
// active ones.
func (p Policy) Decide(state State, u Usage, pods []*v1.Pod, now time.Time) Decision {
	met := p.met(state, u, now)
	next := State{met: map[key]bool{}, since: map[key]time.Time{}, seen: map[v1.NodeConditionType]time.Time{}, measured: map[Signal]time.Time{}}
	for condition, at := range state.seen {
		next.seen[condition] = at
	}
	var d Decision
	for _, t := range met {
		since, ok := state.since[t.key()]
		if !ok || since.After(now) { // a clock was set back
			since = now
		}
		next.since[t.key()], next.seen[t.Signal.condition()] = since, now
		if now.Sub(since) < t.Grace {
			continue
		}
		next.met[t.key()] = true
		if u.Signals[t.Signal].Time.After(state.measured[t.Signal]) {
			d.acting = append(d.acting, t)
		}
	}
	for signal, r := range u.Signals {
		if r.known(now) {
			next.measured[signal] = r.Time
		}
	}
	for signal, at := range state.measured { // what is unknown for a moment is not news when it comes back; a clock that was set back is another matter
		if next.measured[signal].Before(at) && !at.After(now) {
			next.measured[signal] = at
		}
	}
	d.State, d.Pressure = next, pressureSince(next.seen, p.Transition, now)
	if p.LocalStorage {
		d.OverLimit = overLimit(pods, u, now)
	}
	if len(d.acting) == 0 {
		return d
	}
	first := slices.MinFunc(d.acting, func(a, b Threshold) int { return cmp.Compare(a.Signal.order(), b.Signal.order()) })
	d.Met = &Met{Threshold: first, Reading: u.Signals[first.Signal]}
	d.Reclaim = reclaimFor(first.Signal, u.Disks)
	return d
}

// known tells whether the reading can be relied upon.
func (r Reading) known(now time.Time) bool { return !r.Time.IsZero() && !r.Time.After(now) }

// met are the thresholds that are met, or have acted and lack their MinReclaim.
func (p Policy) met(state State, u Usage, now time.Time) (out []Threshold) {
	for _, t := range p.Thresholds {
		if t.isMet(u, now, state.met[t.key()]) {
			out = append(out, t)
		}
	}
	return out
}

func (t Threshold) isMet(u Usage, now time.Time, withReclaim bool) bool {
	r, ok := u.Signals[t.Signal]
	return ok && r.known(now) && t.isShort(r, withReclaim)
}

// isShort tells whether less is left than has to be. A threshold that asks for all that
// there is counts as none.
func (t Threshold) isShort(r Reading, withReclaim bool) bool {
	if t.Impossible(r) {
		return false
	}
	least := t.Value.Of(r.Capacity)
	if withReclaim {
		least = saturated(least, t.MinReclaim.Of(r.Capacity))
	}
	return r.Available < least
}

// Impossible tells whether a threshold asks for all that there is to be left, or for more,
// as far as the capacity is known.
func (t Threshold) Impossible(r Reading) bool {
	return r.Capacity > 0 && t.Value.Of(r.Capacity) >= r.Capacity
}

// Near tells whether a threshold may act, by what the node has left: pods have to be
// measured then. As long as it is false, Decide and Candidate ask nothing of pods but what
// LimitsOf says.
func (p Policy) Near(u Usage) bool {
	return slices.ContainsFunc(p.Thresholds, func(t Threshold) bool {
		r, ok := u.Signals[t.Signal]
		return ok && t.isShort(r, true)
	})
}

// Cleared tells whether a fresh measurement clears all thresholds that act, with their
// MinReclaim. What it does not tell is not clear.
func (d Decision) Cleared(u Usage, now time.Time) bool {
	for _, t := range d.acting {
		if r, ok := u.Signals[t.Signal]; !ok || !r.known(now) || t.isMet(u, now, true) {
			return false
		}
	}
	return true
}

// reclaimFor is what can be removed from the filesystem of a signal.
func reclaimFor(s Signal, disks Disks) Reclaim {
	switch r := s.Resource(); {
	case r == v1.ResourceMemory || r == resourcePIDs:
		return Reclaim{}
	case s.ofImages():
		return Reclaim{DeadContainers: disks != SplitDisk, UnusedImages: true}
	default:
		return Reclaim{DeadContainers: disks != ImageDisk, UnusedImages: disks == OneDisk}
	}
}

// Candidate is who has to go for d.Met. Critical pods stay; ok is false if there is nobody
// else.
func (p Policy) Candidate(d Decision, u Usage, pods []*v1.Pod, now time.Time) (_ Victim, ok bool) {
	if d.Met == nil {
		return Victim{}, false
	}
	pod := worst(d.Met.Threshold.Signal, pods, u)
	if pod == nil {
		return Victim{}, false
	}
	return p.victim(pod, *d.Met, u, now), true
}
