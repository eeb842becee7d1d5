package pleg

import "time"

const (
	// minRelistPeriod and maxRelistPeriod bound the adaptive pause.
	minRelistPeriod = 100 * time.Millisecond
	maxRelistPeriod = 5 * time.Second
	// idleShare is the part of the time without activity that the adaptive pause
	// is: a change is seen after a tenth of the quiet time before it.
	idleShare = 10
	// listShare bounds what lists may take of all time with the adaptive pause:
	// the pause is nine times as long as the list, up to maxRelistPeriod.
	listShare = 9
)

// pause returns how long to wait after a list. idle is the time since the last
// activity, took what the list took. With AdaptiveRelist, d after an activity
// the pause is d/10 within its bounds: while that is below minRelistPeriod there
// are up to 10 lists, then each interval between lists is at least 1.1 times the
// one before, which makes ln(max/min)/ln(1.1) lists until maxRelistPeriod is
// reached.
func (c *Config) pause(mode Mode, idle, took time.Duration) time.Duration {
	switch {
	case mode == Evented:
		return c.EventedRelistPeriod
	case !c.AdaptiveRelist:
		return c.RelistPeriod
	}
	return min(maxRelistPeriod, max(minRelistPeriod, idle/idleShare, took*listShare))
}

// active notes that something happened: what happens next may follow soon.
func (c *core) active(now time.Time) {
	c.list.active = now
	c.hurry(now)
}

// plan sets the time of the next list after one has ended.
func (c *core) plan(q *query, now time.Time) {
	c.list.ended, c.list.took = now, now.Sub(q.started)
	c.list.next = now.Add(c.pause(now))
}

// hurry brings the next list forward if the pause has become shorter.
func (c *core) hurry(now time.Time) {
	if c.list.err == nil && !c.list.ended.IsZero() {
		c.list.next = earliestDue(c.list.next, c.list.ended.Add(c.pause(now)))
	}
}

func (c *core) pause(now time.Time) time.Duration {
	return c.cfg.pause(c.stream.mode, now.Sub(c.list.active), c.list.took)
}
