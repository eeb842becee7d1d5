package fake

import (
	"sync/atomic"
	"time"
)

type clock struct {
	skew atomic.Int64 // nanoseconds ahead of the clock of this process
}

// now returns the time of the runtime's clock.
func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.skew.Load())) }

// SetClockSkew sets the runtime's clock ahead of the clock of this process, or behind it if skew is
// negative. After a jump back, later timestamps may be earlier. All timestamps use this clock:
// creation, start and end, events, statistics and logs. Existing timestamps and the duration of
// waits do not change. See Config.ClockSkew.
func (rt *Runtime) SetClockSkew(skew time.Duration) { rt.skew.Store(int64(skew)) }
