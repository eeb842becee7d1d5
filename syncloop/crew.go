package syncloop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// crew is a set of named goroutines.
type crew struct {
	wg    sync.WaitGroup
	mu    sync.Mutex
	names map[string]int
}

func (c *crew) start(name string, f func()) {
	c.count(name, 1)
	c.wg.Go(func() {
		defer c.count(name, -1)
		f()
	})
}

func (c *crew) count(name string, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names[name] += by; c.names[name] == 0 {
		delete(c.names, name)
	}
}

// wait waits for all; its error names those still running after the timeout.
func (c *crew) wait(timeout time.Duration) error {
	done := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		c.mu.Lock()
		defer c.mu.Unlock()
		names := slices.Sorted(maps.Keys(c.names))
		return fmt.Errorf("syncloop: still running %s after the stop: %s", timeout, strings.Join(names, ", "))
	}
}
