package bubbletest

import (
	"sync"
	"testing"
)

// guarded is a TB whose reports block once it is abandoned: a test that has ended panics on them.
type guarded struct {
	testing.TB
	mu        sync.RWMutex
	abandoned bool
}

func (g *guarded) abandon() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.abandoned = true
}

// enter is called before a report, and its result afterwards.
func (g *guarded) enter() (leave func()) {
	g.mu.RLock()
	if g.abandoned {
		g.mu.RUnlock()
		select {}
	}
	return g.mu.RUnlock
}

func (g *guarded) Error(args ...any) { g.Helper(); defer g.enter()(); g.TB.Error(args...) }
func (g *guarded) Errorf(f string, args ...any) {
	g.Helper()
	defer g.enter()()
	g.TB.Errorf(f, args...)
}
func (g *guarded) Fatal(args ...any) { g.Helper(); defer g.enter()(); g.TB.Fatal(args...) }
func (g *guarded) Fatalf(f string, args ...any) {
	g.Helper()
	defer g.enter()()
	g.TB.Fatalf(f, args...)
}
func (g *guarded) Log(args ...any)             { g.Helper(); defer g.enter()(); g.TB.Log(args...) }
func (g *guarded) Logf(f string, args ...any)  { g.Helper(); defer g.enter()(); g.TB.Logf(f, args...) }
func (g *guarded) Skip(args ...any)            { g.Helper(); defer g.enter()(); g.TB.Skip(args...) }
func (g *guarded) Skipf(f string, args ...any) { g.Helper(); defer g.enter()(); g.TB.Skipf(f, args...) }
func (g *guarded) Fail()                       { defer g.enter()(); g.TB.Fail() }
func (g *guarded) FailNow()                    { defer g.enter()(); g.TB.FailNow() }
func (g *guarded) SkipNow()                    { defer g.enter()(); g.TB.SkipNow() }
