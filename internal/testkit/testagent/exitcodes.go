package testagent

import (
	"context"
	"sync"

	"github.com/podwright/podwright/cri/fake"
)

// Answers are the exit codes of commands in containers.
type Answers struct {
	mu    sync.Mutex
	exits map[string]int // by "container command"; all others exit with 0
	runs  map[string]int
}

// NewAnswers returns Answers that are all 0.
func NewAnswers() *Answers { return &Answers{exits: map[string]int{}, runs: map[string]int{}} }

// Exec returns a resolver whose programs exit with these codes.
func (a *Answers) Exec() fake.Resolver {
	return fake.Always(func(_ context.Context, p *fake.Process) int {
		a.mu.Lock()
		defer a.mu.Unlock()
		key := p.Container.Name + " " + p.Args[0]
		a.runs[key]++
		return a.exits[key]
	})
}

// Set sets the exit code of "container command".
func (a *Answers) Set(key string, exit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exits[key] = exit
}

// Count returns the number of runs of "container command".
func (a *Answers) Count(key string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs[key]
}
