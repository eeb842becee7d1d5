package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
)

// Timing decides when a node's status is computed and written.
type Timing struct {
	// Name is the node's: what sets its moments apart from other nodes'.
	Name string
	// Update is the time between two looks at the node; zero means 10 s.
	Update time.Duration
	// Report is the time after which an unchanged status is written again; zero means
	// 5 min, or Update where only that is given.
	Report time.Duration
}

// Of how long a first status is looked for, and how often.
const (
	startingFor  = 2 * time.Minute
	startingStep = 100 * time.Millisecond
)

// spread is by how much of it a pause may be longer.
const spread = 0.04

// WithDefaults returns the timing with its zeros filled in. Durations below zero are an
// error that names the field.
func (t Timing) WithDefaults() (Timing, error) {
	f := fields.Of("node: Timing")
	fields.Number(f, "Report", &t.Report, cmp.Or(t.Update, 5*time.Minute))
	fields.Number(f, "Update", &t.Update, 10*time.Second)
	return t, f.Err()
}

// Pause is the time until the next look: Update, and up to 4% more, the same for a node
// every time.
func (t Timing) Pause() time.Duration {
	return t.Spread(t.Update, "update")
}

// Spread lengthens a duration by up to 4%, the same for a node and a purpose every time.
func (t Timing) Spread(d time.Duration, purpose string) time.Duration {
	return d + time.Duration(float64(d)*spread*t.fraction(purpose))
}

// Written is when a status was written last. The zero value: never.
type Written struct {
	// At is the moment.
	At time.Time
	// Shift is by how much the next report of an unchanged status is put off, negative
	// for brought forward.
	Shift time.Duration
}

// Due tells whether a status is to be written now: it has changed, or the last write is
// long ago, or lies in the future: then a clock was set, and nobody knows.
func (t Timing) Due(last Written, now time.Time, changed bool) bool {
	since := now.Sub(last.At)
	return changed || last.At.IsZero() || since < 0 || since >= t.Report+last.Shift
}

// Wrote is what to remember of a write. One with a change, and the first, shift the next
// report by up to half of the period either way; the others do not.
func (t Timing) Wrote(last Written, now time.Time, changed bool) Written {
	if !changed && !last.At.IsZero() {
		return Written{At: now}
	}
	return Written{At: now, Shift: time.Duration(float64(t.Report) * (t.fraction("report") - 0.5))}
}

// Starting tells whether an agent that began at a moment should look for its first ready
// status again, and after what pause: until written, the status that the API was told
// last, is ready, or two minutes have passed.
func (t Timing) Starting(begun, now time.Time, written *v1.NodeStatus) (pause time.Duration, again bool) {
	if Ready(written) || now.Sub(begun) >= startingFor {
		return 0, false
	}
	return startingStep, true
}

// fraction is a number from 0 up to 1 that follows from the node's name.
func (t Timing) fraction(purpose string) float64 {
	sum := sha256.Sum256([]byte(purpose + "/" + t.Name))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}
