package fake

import (
	"sync"
	"sync/atomic"
)

// pipeSize is what a pipe holds of what nobody reads.
const pipeSize = 64 << 10

// logGate stands between programs and their logs: while the runtime is down
// nobody reads the pipes that programs write to.
type logGate struct {
	shut atomic.Bool // opened is not nil; read without the lock

	mu      sync.Mutex
	opened  chan struct{} // closed when the gate opens; nil while it is open
	waiting []func(keep bool)
}

// hold shuts the gate.
func (g *logGate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
		g.shut.Store(true)
	}
}

// release opens the gate and lets through what waits.
func (g *logGate) release() { settle(g.open(), true) }

// open opens the gate. What waits is for the caller to settle.
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

// discard drops what waits: the pipes are gone. The gate stays shut.
func (g *logGate) discard() {
	g.mu.Lock()
	waiting := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	settle(waiting, false)
}

// settle runs what waited, in order, without the lock: streams ask the gate
// under theirs.
func settle(waiting []func(keep bool), keep bool) {
	for _, do := range waiting {
		do(keep)
	}
}

// atOpening has do run when the gate opens, which the channel tells; nil when it
// is open already, and then do is not kept. do is told whether what was held
// back is to be written.
func (g *logGate) atOpening(do func(keep bool)) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil && do != nil {
		g.waiting = append(g.waiting, do)
	}
	return g.opened
}
