package plegtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
)

// Runtime is a pleg.Runtime in memory. The zero value is an empty runtime without
// events; WithEvents adds them. It is safe for concurrent use.
type Runtime struct {
	mu          sync.Mutex
	pods        map[types.UID]*pleg.PodStatus
	dirty       map[chan types.UID]struct{} // one per open event stream
	lose        func(types.UID) bool
	lists       int
	inspections map[types.UID]int
	streams     int

	listFault   cell
	streamFault cell
	podFaults   map[types.UID]*cell
}

var _ pleg.Runtime = (*Runtime)(nil)

// Set adds a pod or replaces it. It keeps a copy.
func (r *Runtime) Set(s pleg.PodStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.UID]*pleg.PodStatus{}
	}
	r.pods[s.UID] = clone(&s)
	r.announce(s.UID)
}

// Update changes a pod; a pod that does not exist is created. change must not
// call the runtime.
func (r *Runtime) Update(uid types.UID, change func(*pleg.PodStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.UID]*pleg.PodStatus{}
	}
	next := &pleg.PodStatus{UID: uid}
	if old := r.pods[uid]; old != nil {
		next = clone(old)
	}
	change(next)
	r.pods[uid] = next
	r.announce(uid)
}

// Remove removes a pod with all it has.
func (r *Runtime) Remove(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
	r.announce(uid)
}

// Announce sends an event for the pod although nothing happened.
func (r *Runtime) Announce(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announce(uid)
}

// Lose makes the runtime lose the events for which lost returns true; nil ends
// that. lost must not call the runtime.
func (r *Runtime) Lose(lost func(types.UID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose = lost
}

func (r *Runtime) announce(uid types.UID) {
	if r.lose != nil && r.lose(uid) {
		return
	}
	for c := range r.dirty {
		select {
		case c <- uid:
		default: // a stream that is not drained loses events, like a real one
		}
	}
}

// ListPods implements pleg.Runtime.
func (r *Runtime) ListPods(ctx context.Context) ([]pleg.ObservedPod, error) {
	r.mu.Lock()
	r.lists++
	r.mu.Unlock()
	if err := r.listFault.wait(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]pleg.ObservedPod, 0, len(r.pods))
	for _, s := range r.pods {
		if !s.Empty() {
			out = append(out, pleg.ObservedFrom(s))
		}
	}
	return out, nil
}

// PodStatus implements pleg.Runtime.
func (r *Runtime) PodStatus(ctx context.Context, uid types.UID) (*pleg.PodStatus, error) {
	r.mu.Lock()
	if r.inspections == nil {
		r.inspections = map[types.UID]int{}
	}
	r.inspections[uid]++
	fault := r.fault(uid)
	r.mu.Unlock()
	if err := fault.wait(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.pods[uid]; s != nil {
		return clone(s), nil
	}
	return &pleg.PodStatus{UID: uid}, nil
}

// Lists returns how often ListPods was called.
func (r *Runtime) Lists() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lists
}

// Inspections returns how often PodStatus was called for the pod.
func (r *Runtime) Inspections(uid types.UID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inspections[uid]
}

// Streams returns how often PodEvents was called.
func (r *Runtime) Streams() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams
}

// FailList sets the fault of ListPods; the zero Fault ends it. Calls that hang
// return when the fault is replaced.
func (r *Runtime) FailList(f Fault) { r.listFault.set(f) }

// FailPod sets the fault of PodStatus for one pod.
func (r *Runtime) FailPod(uid types.UID, f Fault) {
	r.mu.Lock()
	fault := r.fault(uid)
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

func clone(s *pleg.PodStatus) *pleg.PodStatus {
	c := *s
	c.IPs = slices.Clone(s.IPs)
	c.Sandboxes = slices.Clone(s.Sandboxes)
	for i := range c.Sandboxes {
		c.Sandboxes[i].IPs = slices.Clone(c.Sandboxes[i].IPs)
	}
	c.Containers = slices.Clone(s.Containers)
	return &c
}

// Fault is what goes wrong with calls. The zero value is nothing.
type Fault struct {
	// Latency is how long a call takes before anything else happens.
	Latency time.Duration
	// Hang makes the call wait until its context ends or the fault is replaced.
	Hang bool
	// Deaf makes waiting calls ignore their context.
	Deaf bool
	// Err is the error that the call returns.
	Err error
}

// cell holds a fault and lets calls wait for its replacement.
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

// wait lives through the fault. A call that hung and is let go succeeds, unless
// its context has ended meanwhile.
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
