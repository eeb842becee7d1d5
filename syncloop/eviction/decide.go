package eviction

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Policy is the configuration of evictions.
type Policy struct {
	// Thresholds is the result of Settings.Parse.
	Thresholds []Threshold
	// Transition is the time that a condition stays after it was last met.
	Transition time.Duration
	// MaxPodGrace is the longest grace period of a pod in seconds when a soft threshold acts.
	MaxPodGrace int64
	// LocalStorage enables the eviction of pods that exceed their limits of local storage.
	LocalStorage bool
}

func (p Policy) hasWork() bool { return p.LocalStorage || len(p.Thresholds) > 0 }

// key identifies a threshold: a signal may have a hard and a soft one.
type key struct {
	signal Signal
	grace  time.Duration
}

func (t Threshold) key() key { return key{t.Signal, t.Grace} }

// State is the result of a decision that the next one needs. The zero value is the initial state.
type State struct {
	met      map[key]bool      // thresholds that have acted and lack MinReclaim
	since    map[key]time.Time // the time when they were first met
	seen     map[v1.NodeConditionType]time.Time
	measured map[Signal]time.Time
}

// Reclaim is the part of disk cleanup that precedes an eviction.
type Reclaim struct{ DeadContainers, UnusedImages bool }

// Met is a threshold that acts, with the reading that met it.
type Met struct {
	Threshold Threshold
	Reading   Reading
}

// Decision is the result of Decide. If Met is set, the node first performs Reclaim. If that does
// not suffice, the Candidate is evicted.
type Decision struct {
	// State is the input of the next decision.
	State State
	// Pressure is the set of current node conditions.
	Pressure Pressure
	// OverLimit are the pods over their storage limits. All are killed. If one of them ends, no
	// other pod is evicted in this pass.
	OverLimit []Victim
	// Met is the threshold to act on, or nil.
	Met *Met
	// Reclaim is the cleanup to try first.
	Reclaim Reclaim
	// acting are all thresholds that act now.
	acting []Threshold
}

// Decide returns the actions at time now. It changes neither state nor pods. pods are the active
// pods.
func (p Policy) Decide(state State, u Usage, pods []*v1.Pod, now time.Time) Decision {
	met := p.met(state, u, now)
	next := State{met: map[key]bool{}, since: map[key]time.Time{}, seen: map[v1.NodeConditionType]time.Time{}, measured: map[Signal]time.Time{}}
	for condition, at := range state.seen {
		next.seen[condition] = at
	}
	var d Decision
	for _, t := range met {
		since, ok := state.since[t.key()]
		if !ok || since.After(now) { // the clock was set back
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
		if r.valid(now) {
			next.measured[signal] = r.Time
		}
	}
	// A signal that was unavailable for a moment is no newer than before. A time in the future is
	// dropped, because the clock was set back.
	for signal, at := range state.measured {
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

func (r Reading) valid(now time.Time) bool { return !r.Time.IsZero() && !r.Time.After(now) }

// met returns the thresholds that are met, or have acted and lack MinReclaim.
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
	return ok && r.valid(now) && t.isShort(r, withReclaim)
}

// isShort reports whether too little is available. A threshold at or above the capacity is
// ignored.
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

// Impossible reports whether a threshold requires the whole capacity or more, so that Decide
// ignores it. It is false for an unknown capacity.
func (t Threshold) Impossible(r Reading) bool {
	return r.Capacity > 0 && t.Value.Of(r.Capacity) >= r.Capacity
}

// Near reports whether a threshold may act according to the node's readings, so that pods must be
// measured. While it is false, Decide and Candidate need no usage of pods except for the limits in
// LimitsOf.
func (p Policy) Near(u Usage) bool {
	return slices.ContainsFunc(p.Thresholds, func(t Threshold) bool {
		r, ok := u.Signals[t.Signal]
		return ok && t.isShort(r, true)
	})
}

// Cleared reports whether a new measurement clears all acting thresholds, including MinReclaim. A
// missing signal is not cleared.
func (d Decision) Cleared(u Usage, now time.Time) bool {
	for _, t := range d.acting {
		if r, ok := u.Signals[t.Signal]; !ok || !r.valid(now) || t.isMet(u, now, true) {
			return false
		}
	}
	return true
}

// reclaimFor returns the cleanup that frees space on the signal's filesystem.
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

// Candidate returns the pod to evict for d.Met, or false if d.Met is nil or all pods are critical.
func (p Policy) Candidate(d Decision, u Usage, pods []*v1.Pod, now time.Time) (_ Victim, ok bool) {
	if d.Met == nil {
		return Victim{}, false
	}
	pod := chooseVictim(d.Met.Threshold.Signal, pods, u)
	if pod == nil {
		return Victim{}, false
	}
	return p.victim(pod, *d.Met, u, now), true
}
