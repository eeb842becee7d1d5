package plegtest

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Fault describes a misbehaviour of calls. The zero value is none.
type Fault struct {
	// Latency is the delay before the rest of the call.
	Latency time.Duration
	// Hang makes the call wait until its context is done or the fault is replaced.
	Hang bool
	// Deaf makes waiting calls ignore their context.
	Deaf bool
	// Err is the error of the call.
	Err error
}

// cell stores a fault and lets calls wait for its replacement.
type cell struct {
	mu       sync.Mutex
	fault    Fault
	replaced chan struct{}
}

func (c *cell) set(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
	if c.replaced != nil {
		close(c.replaced)
	}
	c.replaced = make(chan struct{})
}

func (c *cell) get() (Fault, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replaced == nil {
		c.replaced = make(chan struct{})
	}
	return c.fault, c.replaced
}

// wait performs the fault. A released hanging call succeeds, unless its context is done.
func (c *cell) wait(ctx context.Context) error {
	f, replaced := c.get()
	done := ctx.Done()
	if f.Deaf {
		done = nil
	}
	if f.Latency > 0 {
		timer := time.NewTimer(f.Latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-done:
			return ctx.Err()
		}
	}
	if f.Hang {
		select {
		case <-replaced:
		case <-done:
		}
	}
	if f.Err != nil {
		return f.Err
	}
	return ctx.Err()
}

// FailList sets the fault of ListPods; the zero Fault ends it. Hanging calls return when the
// fault is replaced.
func (r *Runtime) FailList(f Fault) { r.listFault.set(f) }

// FailInspections sets the fault of PodStatus for all pods without a FailPod.
func (r *Runtime) FailInspections(f Fault) { r.podFault.set(f) }

// FailPod sets the fault of PodStatus for one pod, instead of the fault of FailInspections. The zero
// Fault removes it: FailInspections applies again.
func (r *Runtime) FailPod(uid types.UID, f Fault) {
	r.mu.Lock()
	fault := r.fault(uid)
	if f == (Fault{}) {
		delete(r.podFaults, uid)
	}
	r.mu.Unlock()
	fault.set(f)
}

func (r *Runtime) fault(uid types.UID) *cell {
	if r.podFaults == nil {
		r.podFaults = map[types.UID]*cell{}
	}
	if r.podFaults[uid] == nil {
		r.podFaults[uid] = &cell{}
	}
	return r.podFaults[uid]
}
