package pleg

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Health is what a PLEG knows of its own ability to see.
type Health struct {
	// Running tells that Run is running.
	Running bool
	// ListedAt is when the last complete list began, zero before the first.
	ListedAt time.Time
	// ListingSince is when the list in progress began, zero when there is none.
	ListingSince time.Time
	// ListError is why the last list failed, nil when it did not.
	ListError error
	// Deadline is when the PLEG counts as unhealthy unless another list is
	// complete by then; zero before the first. It follows from ListedAt and the
	// threshold of the mode; after a fall back to Generic the new, shorter
	// threshold counts from the fall.
	Deadline time.Time
	// Mode is how changes are found, ModeSince when that changed last (zero:
	// never).
	Mode      Mode
	ModeSince time.Time
	// Stream is the state of the event stream.
	Stream StreamHealth
	// Inspecting is how many inspections are in progress, not counting those
	// that take longer than 5 s.
	Inspecting int
	// Stale are the pods that cannot be looked at now, in order of UID. They do
	// not make the PLEG unhealthy.
	Stale []StalePod
}

// StreamHealth is the state of the runtime's event stream.
type StreamHealth struct {
	State StreamState
	// Since is when it was opened, or when it ended.
	Since time.Time
	// Attempts counts the failures since the last stable stream.
	Attempts int
	// Err is how the last stream ended, nil when none has.
	Err error
}

// StalePod is a pod whose cached status may be out of date.
type StalePod struct {
	UID types.UID
	// Since is when the first look began that brought nothing.
	Since time.Time
	// Reason tells what is the matter, for people.
	Reason string
}

// Err returns nil if the PLEG is healthy at the given moment, otherwise an error
// that wraps ErrUnhealthy and names the reason.
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

// health returns everything but the stale pods, which cost a copy.
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

// deadline returns until when the last complete list is good enough. Right after
// a fall back from Evented that list may be older than the threshold of Generic:
// then the threshold counts from the fall, within that of Evented.
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

// stalePods lists the pods that cannot be looked at.
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
	if len(p.looks) > 0 {
		why = append(why, fmt.Sprintf("an inspection is in progress for %v", now.Sub(p.looks[0].started).Round(time.Millisecond)))
	}
	if p.err != nil {
		why = append(why, p.err.Error())
	}
	return strings.Join(why, "; ")
}
