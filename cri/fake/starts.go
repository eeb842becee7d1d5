package fake

import (
	"context"
	"sync"
)

// starts counts programs in a call of their Resolver. Unlike a WaitGroup it allows waits with a
// bound, since a Resolver may not return, and new entries during a wait, since another goroutine
// may start the runtime again.
type starts struct {
	mu   sync.Mutex
	open map[*container]int
	none chan struct{} // closed when open is empty; nil without waiters
}

func (s *starts) begin(c *container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*container]int{}
	}
	s.open[c]++
}

func (s *starts) end(c *container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[c]--; s.open[c] == 0 {
		delete(s.open, c)
	}
	if len(s.open) == 0 && s.none != nil {
		close(s.none)
		s.none = nil
	}
}

// wait waits until open is empty, or until ctx is done.
func (s *starts) wait(ctx context.Context) {
	s.mu.Lock()
	if len(s.open) == 0 {
		s.mu.Unlock()
		return
	}
	if s.none == nil {
		s.none = make(chan struct{})
	}
	none := s.none
	s.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

// names returns the names of the containers, once for each program.
func (s *starts) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for c, n := range s.open {
		for range n {
			names = append(names, c.name.String())
		}
	}
	return names
}
