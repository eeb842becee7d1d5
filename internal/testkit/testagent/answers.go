package testagent

import (
	"context"
	"sync"

	"github.com/podwright/podwright/cri/fake"
)

// Answers are what commands in containers say.
type Answers struct {
	mu    sync.Mutex
	exits map[string]int // "container command"; others exit with 0
	asked map[string]int
}

// NewAnswers returns Answers that are all 0.
func NewAnswers() *Answers { return &Answers{exits: map[string]int{}, asked: map[string]int{}} }

// Exec has every program of a container answer.
func (a *Answers) Exec() fake.Resolver {
	return fake.Always(func(_ context.Context, p *fake.Process) int {
		a.mu.Lock()
		defer a.mu.Unlock()
		key := p.Container.Name + " " + p.Args[0]
		a.asked[key]++
		return a.exits[key]
	})
}

// Set has "container command" exit with a code from now on.
func (a *Answers) Set(key string, exit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exits[key] = exit
}

// Count is how often "container command" was run.
func (a *Answers) Count(key string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[key]
}
