package pleg

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Health is the state of the observation.
type Health struct {
	// Running is true while Run is running.
	Running bool
	// ListedAt is the start of the last complete list, zero before the first.
	ListedAt time.Time
	// ListingSince is the start of the running list, zero without one.
	ListingSince time.Time
	// ListError is the error of the last list, or nil.
	ListError error
	// Deadline is the time at which the PLEG becomes unhealthy without another complete list;
	// zero before the first list. It is ListedAt plus the threshold of the mode. After a fall
	// back to Generic the new, shorter threshold starts at the fall back.
	Deadline time.Time
	// Mode is the way in which changes are detected. ModeSince is the time of its last change,
	// zero without one.
	Mode      Mode
	ModeSince time.Time
	Stream    StreamHealth
	// Inspecting is the number of running inspections that are at most 5 s old.
	Inspecting int
	// Stale are the pods whose inspection fails or hangs, sorted by UID. They do not make the
	// PLEG unhealthy.
	Stale []StalePod
}

// StreamHealth is the state of the runtime's event stream.
type StreamHealth struct {
	State StreamState
	// Since is the time at which it was opened, or ended.
	Since time.Time
	// Attempts is the number of failures since the last stable stream.
	Attempts int
	// Err is the error that ended the last stream, or nil.
	Err error
}

// StalePod is a pod whose cached status may be out of date.
type StalePod struct {
	UID types.UID
	// Since is the start of the first inspection without a result.
	Since time.Time
	// Reason describes the problem.
	Reason string
}

// Err returns nil if the PLEG is healthy at the given time, or else an error with the reason
// that wraps ErrUnhealthy.
func (h Health) Err(now time.Time) error {
	var why []string
	switch {
	case !h.Running:
		return fmt.Errorf("%w: %w", ErrUnhealthy, ErrNotRunning)
	case h.ListedAt.IsZero():
		why = append(why, "the pods were never listed")
	case !now.After(h.Deadline):
		return nil
	default:
		why = append(why, fmt.Sprintf("the last complete list is %v old", now.Sub(h.ListedAt).Round(time.Millisecond)))
	}
	if !h.ListingSince.IsZero() {
		why = append(why, fmt.Sprintf("a list is in progress for %v", now.Sub(h.ListingSince).Round(time.Millisecond)))
	}
	if h.ListError != nil {
		return fmt.Errorf("%w: %s; the last attempt: %w", ErrUnhealthy, strings.Join(why, ", "), h.ListError)
	}
	return fmt.Errorf("%w: %s", ErrUnhealthy, strings.Join(why, ", "))
}

// health returns the health without the stale pods, which cost a copy.
func (c *core) health() Health {
	h := Health{
		ListedAt:  c.list.at,
		ListError: c.list.err,
		Deadline:  c.deadline(),
		Mode:      c.stream.mode,
		ModeSince: c.stream.changed,
		Stream: StreamHealth{
			State:    c.stream.state,
			Since:    c.stream.since,
			Attempts: c.stream.attempts,
			Err:      c.stream.err,
		},
		Inspecting: len(c.slots),
	}
	if c.list.query != nil {
		h.ListingSince = c.list.query.started
	}
	return h
}

// deadline returns the time until which the last complete list is new enough. Right after a fall
// back from Evented that list may be older than the threshold of Generic. Then the threshold
// starts at the fall back, bounded by the threshold of Evented.
func (c *core) deadline() time.Time {
	if c.list.at.IsZero() {
		return time.Time{}
	}
	evented := c.list.at.Add(c.cfg.EventedThreshold)
	if c.stream.mode == Evented {
		return evented
	}
	generic := c.list.at.Add(c.cfg.Threshold)
	if c.stream.changed.IsZero() {
		return generic
	}
	return latest(generic, earliestDue(evented, c.stream.changed.Add(c.cfg.Threshold)))
}

func (c *core) stalePods(now time.Time) []StalePod {
	var out []StalePod
	for uid, p := range c.stale {
		out = append(out, StalePod{UID: uid, Since: p.stale, Reason: p.staleReason(now)})
	}
	slices.SortFunc(out, func(a, b StalePod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return out
}

func (p *pod) staleReason(now time.Time) string {
	var why []string
	if len(p.inspections) > 0 {
		why = append(why, fmt.Sprintf("an inspection is in progress for %v", now.Sub(p.inspections[0].started).Round(time.Millisecond)))
	}
	if p.err != nil {
		why = append(why, p.err.Error())
	}
	return strings.Join(why, "; ")
}
