package fake

import (
	"sync"
	"sync/atomic"
)

// pipeSize is the capacity of a pipe.
const pipeSize = 64 << 10

// logGate is between programs and their logs. While the runtime is down, it acts as a pipe without
// a reader.
type logGate struct {
	shut atomic.Bool // opened is not nil; read without the lock

	mu      sync.Mutex
	opened  chan struct{} // closed when the gate opens; nil while it is open
	waiting []func(keep bool)
}

func (g *logGate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
		g.shut.Store(true)
	}
}

// release opens the gate and writes the waiting data.
func (g *logGate) release() { settle(g.open(), true) }

// open opens the gate. The caller settles the returned functions.
func (g *logGate) open() []func(keep bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := g.waiting
	g.waiting = nil
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
		g.shut.Store(false)
	}
	return waiting
}

// discard drops the waiting data, as if the pipes were closed. The gate stays shut.
func (g *logGate) discard() {
	g.mu.Lock()
	waiting := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	settle(waiting, false)
}

// settle calls the waiting functions in order, without the lock: streams call the gate under
// theirs.
func settle(waiting []func(keep bool), keep bool) {
	for _, do := range waiting {
		do(keep)
	}
}

// atOpening registers do for the opening of the gate and returns a channel that is closed then. If
// the gate is open it returns nil and does not register do. The argument of do is true if the
// delayed data is to be written.
func (g *logGate) atOpening(do func(keep bool)) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil && do != nil {
		g.waiting = append(g.waiting, do)
	}
	return g.opened
}
