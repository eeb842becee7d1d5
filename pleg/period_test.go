package pleg

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/pleg/observed"
)

func TestPause(t *testing.T) {
	cfg := Config{Runtime: struct{ Runtime }{}}
	require.NoError(t, cfg.complete())
	adaptive := cfg
	adaptive.AdaptiveRelist = true
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, c := range []struct {
		cfg        *Config
		mode       Mode
		idle, took time.Duration
		want       time.Duration
	}{
		{&cfg, Generic, 0, 0, time.Second},
		{&cfg, Generic, time.Hour, time.Minute, time.Second},
		{&cfg, Evented, 0, 0, 300 * time.Second},
		{&adaptive, Evented, 0, 0, 300 * time.Second},
		{&adaptive, Generic, 0, 0, ms(100)},
		{&adaptive, Generic, time.Second, 0, ms(100)},
		{&adaptive, Generic, 3 * time.Second, 0, ms(300)},
		{&adaptive, Generic, time.Hour, 0, 5 * time.Second},
		{&adaptive, Generic, 0, ms(40), ms(360)},
		{&adaptive, Generic, 10 * time.Second, ms(40), time.Second},
		{&adaptive, Generic, 0, time.Minute, 5 * time.Second},
	} {
		require.Equal(t, c.want, c.cfg.pause(c.mode, c.idle, c.took), "%+v", c)
	}
}

// The documented bound of the adaptive pause: at most 10 + ln(max/min)/ln(1.1) lists per
// activity on top of one per maxRelistPeriod, and never more than one per minRelistPeriod.
func TestAdaptiveCostBound(t *testing.T) {
	for _, every := range []time.Duration{0, 50 * time.Millisecond, time.Second, 7 * time.Second, 2 * time.Minute} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			cfg := Config{Runtime: struct{ Runtime }{}, AdaptiveRelist: true}
			require.NoError(t, cfg.complete())
			c := newCore(cfg, false)
			begin := time.Unix(1000, 0)
			c.begin(begin)
			const span = 10 * time.Minute
			lists, activities, next := 0, 1, begin.Add(every) // the start is an activity
			for now := begin; now.Sub(begin) < span; {
				if q, _ := c.next(now); q != nil {
					c.apply(result{query: q}, now)
					lists++
				}
				now = c.list.next
				if every > 0 && !next.After(now) {
					now = next
					c.active(now)
					activities++
					next = now.Add(every)
				}
			}
			lo, hi := minRelistPeriod.Seconds(), maxRelistPeriod.Seconds()
			bound := span.Seconds()/hi + 1 + float64(activities)*(10+math.Log(hi/lo)/math.Log(1.1)+1)
			require.LessOrEqual(t, float64(lists), bound)
			require.LessOrEqual(t, float64(lists), span.Seconds()/lo+1)
			if every == 0 {
				require.GreaterOrEqual(t, float64(lists), span.Seconds()/hi-1, "it does list")
			}
		})
	}
}

var errTestList = errors.New("no list")

// A change is seen within a tenth of the quiet time before it, and within minRelistPeriod right
// after an activity. Failed lists are retried every RelistPeriod.
func TestAdaptivePause(t *testing.T) {
	s := newScript(t)
	s.c.cfg.AdaptiveRelist = true
	p := onePod("u", observed.StateRunning)
	s.know(p)
	wait := func() time.Duration { return s.c.list.next.Sub(s.now) }
	require.LessOrEqual(t, wait(), 100*time.Millisecond)
	quiet := func(d time.Duration) {
		for end := s.now.Add(d); s.now.Before(end); {
			s.now = s.c.list.next
			s.listed(s.start(listAll), p)
		}
	}
	quiet(10 * time.Second)
	require.InDelta(t, time.Second, wait(), float64(200*time.Millisecond))
	quiet(time.Minute)
	require.Equal(t, 5*time.Second, wait())

	s.c.active(s.now) // an activity brings the next list forward
	require.Equal(t, 100*time.Millisecond, wait())
	quiet(time.Minute)
	s.now = s.c.list.next
	p = onePod("u", observed.StateExited)
	p.Sandboxes = nil
	s.listed(s.start(listAll), p)
	s.inspected(s.start(inspectOne), p)
	require.LessOrEqual(t, wait(), 100*time.Millisecond, "a change is an activity")

	quiet(time.Minute)
	s.now = s.c.list.next
	require.Len(t, s.listed(s.start(listAll)), 1)
	require.LessOrEqual(t, wait(), 100*time.Millisecond, "a removal is an activity")

	s.now = s.c.list.next
	s.c.apply(result{query: s.start(listAll), err: errTestList}, s.now)
	require.Equal(t, time.Second, wait())
	s.c.active(s.now)
	require.Equal(t, time.Second, wait(), "a failing runtime is not queried more often")
}
