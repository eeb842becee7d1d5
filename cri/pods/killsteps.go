package pods

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxSteps is of how many containers a step tells.
const maxSteps = 5

// killSteps puts together what a kill is at, for people.
type killSteps struct {
	set func(step string)

	mu sync.Mutex
	at map[string]string
}

// container tells what the stop of a container is at; "" for its end.
func (s *killSteps) container(name, step string) {
	if s == nil || s.set == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[string]string{}
	}
	s.at[name] = step
	if step == "" {
		delete(s.at, name)
	}
	var parts []string
	names := slices.Sorted(maps.Keys(s.at))
	for _, name := range names[:min(len(names), maxSteps)] {
		parts = append(parts, "container "+name+": "+s.at[name])
	}
	if more := len(names) - maxSteps; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if len(parts) > 0 {
		s.set(strings.Join(parts, "; "))
	}
}

// sandboxes tells that sandboxes are stopped.
func (s *killSteps) sandboxes(n int) {
	if s == nil || s.set == nil || n == 0 {
		return
	}
	s.set(fmt.Sprintf("stopping %d sandbox(es)", n))
}
