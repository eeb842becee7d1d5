package pleg

import "time"

const (
	// minRelistPeriod and maxRelistPeriod bound the adaptive pause.
	minRelistPeriod = 100 * time.Millisecond
	maxRelistPeriod = 5 * time.Second
	// idleShare divides the time since the last activity to get the adaptive pause.
	idleShare = 10
	// listShare bounds the share of lists in all time with the adaptive pause: the pause is at
	// least nine times the duration of the list, up to maxRelistPeriod.
	listShare = 9
)

// pause returns the pause after a list. idle is the time since the last activity, took the
// duration of the list. With AdaptiveRelist the pause is idle/10 within its bounds. While that
// is below minRelistPeriod, up to 10 lists run; then each interval between lists is at least 1.1
// times the previous one, which gives ln(max/min)/ln(1.1) lists until maxRelistPeriod.
func (c *Config) pause(mode Mode, idle, took time.Duration) time.Duration {
	switch {
	case mode == Evented:
		return c.EventedRelistPeriod
	case !c.AdaptiveRelist:
		return c.RelistPeriod
	}
	return min(maxRelistPeriod, max(minRelistPeriod, idle/idleShare, took*listShare))
}

// active records an activity, because the next change may follow soon.
func (c *core) active(now time.Time) {
	c.list.active = now
	c.bringForward(now)
}

// plan sets the time of the next list after the end of one.
func (c *core) plan(q *query, now time.Time) {
	c.list.ended, c.list.took = now, now.Sub(q.started)
	c.list.next = now.Add(c.pause(now))
	if q.seq <= c.list.dropped {
		c.list.next = earliestDue(c.list.next, now.Add(c.cfg.RelistPeriod))
	}
}

// bringForward brings the next list forward if the pause has become shorter.
func (c *core) bringForward(now time.Time) {
	if c.list.err == nil && !c.list.ended.IsZero() {
		c.list.next = earliestDue(c.list.next, c.list.ended.Add(c.pause(now)))
	}
}

func (c *core) pause(now time.Time) time.Duration {
	return c.cfg.pause(c.stream.mode, now.Sub(c.list.active), c.list.took)
}
