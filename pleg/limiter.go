package pleg

import (
	"slices"
	"time"
)

const (
	// inspectionsAtFirst is how many inspections run at the same time before
	// anything is known of the runtime, and inspectionsAtLeast how many however
	// slow it becomes.
	inspectionsAtFirst = 16
	inspectionsAtLeast = 4
)

// limiter decides how many inspections may run at the same time: more as long as
// each takes no longer for it, fewer when they get in each other's way. It judges
// by the median of as many inspections as may run at a time, so a few that are
// slow, or hang, change nothing for the others.
type limiter struct {
	limit       int
	least, most int
	// best is the shortest median so far: what an inspection takes when the
	// runtime has time for it.
	best time.Duration
	took []time.Duration
	// full tells that all places were taken since the last judgement.
	full bool
}

func newLimiter(most int) limiter {
	return limiter{limit: min(inspectionsAtFirst, most), least: min(inspectionsAtLeast, most), most: most}
}

// room tells whether one more may start while so many are running.
func (l *limiter) room(running int) bool {
	if running < l.limit {
		return true
	}
	l.full = true
	return false
}

// ended takes in how long an inspection took that brought a status.
func (l *limiter) ended(took time.Duration) {
	l.took = append(l.took, took)
	if len(l.took) < l.limit {
		return
	}
	slices.Sort(l.took)
	typical := l.took[len(l.took)/2]
	full := l.full
	l.took, l.full = l.took[:0], false
	if l.best == 0 || typical < l.best || l.limit == l.least {
		// What takes long even with the fewest at a time takes that long now.
		l.best = typical
	}
	switch {
	case 2*typical > 5*l.best:
		l.limit = max(l.least, l.limit/2)
	case full && 2*typical <= 3*l.best:
		l.limit = min(l.most, l.limit+max(1, l.limit/2))
	}
}
