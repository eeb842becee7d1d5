package eventsourcetest

import (
	"sync"
	"time"
)

// wallClock lets a case in a bubble wait in real time. A goroutine that waits for
// a lock stops the time of its bubble, so whether a lock is held can only be found
// out by a clock outside of it.
type wallClock struct {
	ask   chan time.Duration
	reply chan (<-chan struct{})
}

// newWallClock returns a clock that runs until stop is called. Call it outside of
// bubbles: the channels of a bubble are of no use outside.
func newWallClock() (c *wallClock, stop func()) {
	c = &wallClock{ask: make(chan time.Duration), reply: make(chan (<-chan struct{}))}
	stopped := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for d := range c.ask {
			rung := make(chan struct{})
			c.reply <- rung
			running.Go(func() {
				defer close(rung)
				timer := time.NewTimer(d)
				defer timer.Stop()
				select {
				case <-timer.C:
				case <-stopped:
				}
			})
		}
	})
	return c, func() { close(stopped); close(c.ask); running.Wait() }
}

// after returns a channel that is closed after d of real time.
func (c *wallClock) after(d time.Duration) <-chan struct{} {
	c.ask <- d
	return <-c.reply
}
