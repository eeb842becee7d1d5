package fake

import (
	"sync/atomic"
	"time"
)

// clock is the runtime's clock.
type clock struct {
	skew atomic.Int64 // nanoseconds ahead of the clock of this process
}

// now is the time of the runtime's clock.
func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.skew.Load())) }

// SetClockSkew puts the runtime's clock that far ahead of the clock of this
// process, or behind it when skew is negative, from now on. A jump back is as
// good as one ahead: what happens later may have an earlier time. The clock is
// what all timestamps are read from: of creation, start and end, in events,
// statistics and logs. What has a time already keeps it, and how long waits
// take is not affected. See Config.ClockSkew.
func (rt *Runtime) SetClockSkew(skew time.Duration) { rt.skew.Store(int64(skew)) }
