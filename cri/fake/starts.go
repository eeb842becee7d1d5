package fake

import (
	"context"
	"sync"
)

// starts are programs on their way into a container: their Resolver is asked.
// Unlike a WaitGroup it can be waited for with a bound, since a Resolver may not
// return, and while others begin, since a runtime that goes down can be brought
// up by somebody else.
type starts struct {
	mu   sync.Mutex
	open map[*container]int
	none chan struct{} // closed once there are none; nil while nobody waits
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

// wait waits until there are none, as long as ctx lasts.
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

// names lists the containers, once for each program.
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
