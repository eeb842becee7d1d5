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
	// Name is the node's name. It determines the node's share of every spread.
	Name string
	// Update is the time between two computations. Default: 10 s.
	Update time.Duration
	// Report is the time after which an unchanged status is written again. Default: Update if
	// set, otherwise 5 min.
	Report time.Duration
}

// Duration and step of the frequent checks for a first ready status.
const (
	startingFor  = 2 * time.Minute
	startingStep = 100 * time.Millisecond
)

// spread is the maximum extension of a pause, as a fraction.
const spread = 0.04

// WithDefaults returns the timing with its defaults. It returns an error that names the field for
// a negative duration.
func (t Timing) WithDefaults() (Timing, error) {
	f := fields.Of("node: Timing")
	fields.Number(f, "Report", &t.Report, cmp.Or(t.Update, 5*time.Minute))
	fields.Number(f, "Update", &t.Update, 10*time.Second)
	return t, f.Err()
}

// Pause returns the time until the next computation: Update plus up to 4 %, constant for a node.
func (t Timing) Pause() time.Duration {
	return t.Spread(t.Update, "update")
}

// Spread extends a duration by up to 4 %, constant for a node and a purpose.
func (t Timing) Spread(d time.Duration, purpose string) time.Duration {
	return d + time.Duration(float64(d)*spread*t.fraction(purpose))
}

// Written describes the last write of a status. The zero value means never.
type Written struct {
	At time.Time
	// Shift is added to the period before the next report of an unchanged status. It may be
	// negative.
	Shift time.Duration
}

// Due reports whether a status must be written now: it has changed, the last write is too long
// ago, or the last write is in the future because a clock was set.
func (t Timing) Due(last Written, now time.Time, changed bool) bool {
	since := now.Sub(last.At)
	return changed || last.At.IsZero() || since < 0 || since >= t.Report+last.Shift
}

// Wrote returns the record of a write. A first write, and one with a change, shift the next
// report by up to half of the period in either direction; other writes do not.
func (t Timing) Wrote(last Written, now time.Time, changed bool) Written {
	if !changed && !last.At.IsZero() {
		return Written{At: now}
	}
	return Written{At: now, Shift: time.Duration(float64(t.Report) * (t.fraction("report") - 0.5))}
}

// Starting reports whether an agent that started at begun should check for its first ready status
// again, and after which pause. It does so until written, the last written status, is ready, or
// two minutes have passed.
func (t Timing) Starting(begun, now time.Time, written *v1.NodeStatus) (pause time.Duration, again bool) {
	if Ready(written) || now.Sub(begun) >= startingFor {
		return 0, false
	}
	return startingStep, true
}

// fraction returns a number in [0, 1) that depends on the node's name and the purpose.
func (t Timing) fraction(purpose string) float64 {
	sum := sha256.Sum256([]byte(purpose + "/" + t.Name))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}
