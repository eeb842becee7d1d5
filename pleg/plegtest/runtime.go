package plegtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
)

// Runtime is an in-memory pleg.Runtime. The zero value is an empty runtime without events;
// WithEvents adds them. It is safe for concurrent use.
type Runtime struct {
	mu          sync.Mutex
	pods        map[types.UID]*observed.Pod
	dirty       map[chan types.UID]struct{} // one per open event stream
	deliver     func(types.UID) []time.Duration
	backlog     int
	past        []types.UID // the last events, up to backlog
	lists       int
	inspections map[types.UID]int
	streams     int

	listFault   cell
	streamFault cell
	podFault    cell // of pods without a FailPod
	podFaults   map[types.UID]*cell
}

var _ pleg.Runtime = (*Runtime)(nil)

// Set adds or replaces a pod. It stores a copy.
func (r *Runtime) Set(s observed.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.UID]*observed.Pod{}
	}
	r.pods[s.UID] = clone(&s)
	r.announce(s.UID)
}

// Update changes a pod, after creating it if necessary. change must not call the runtime.
func (r *Runtime) Update(uid types.UID, change func(*observed.Pod)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.UID]*observed.Pod{}
	}
	next := &observed.Pod{UID: uid}
	if old := r.pods[uid]; old != nil {
		next = clone(old)
	}
	change(next)
	r.pods[uid] = next
	r.announce(uid)
}

// Remove removes a pod.
func (r *Runtime) Remove(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
	r.announce(uid)
}

// Announce sends an event for an unchanged pod.
func (r *Runtime) Announce(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announce(uid)
}

// ListPods implements pleg.Runtime.
func (r *Runtime) ListPods(ctx context.Context) ([]observed.ListedPod, error) {
	r.mu.Lock()
	r.lists++
	r.mu.Unlock()
	if err := r.listFault.wait(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]observed.ListedPod, 0, len(r.pods))
	for _, s := range r.pods {
		if !s.Empty() {
			out = append(out, s.Listed())
		}
	}
	return out, nil
}

// PodStatus implements pleg.Runtime.
func (r *Runtime) PodStatus(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	r.mu.Lock()
	if r.inspections == nil {
		r.inspections = map[types.UID]int{}
	}
	r.inspections[uid]++
	fault := r.podFaults[uid]
	if fault == nil {
		fault = &r.podFault
	}
	r.mu.Unlock()
	if err := fault.wait(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.pods[uid]; s != nil {
		return clone(s), nil
	}
	return &observed.Pod{UID: uid}, nil
}

// Lists returns the number of calls of ListPods.
func (r *Runtime) Lists() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lists
}

// Inspections returns the number of calls of PodStatus for the pod.
func (r *Runtime) Inspections(uid types.UID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inspections[uid]
}

// Streams returns the number of calls of PodEvents.
func (r *Runtime) Streams() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams
}

func clone(s *observed.Pod) *observed.Pod {
	c := *s
	c.IPs = slices.Clone(s.IPs)
	c.Sandboxes = slices.Clone(s.Sandboxes)
	for i := range c.Sandboxes {
		c.Sandboxes[i].IPs = slices.Clone(c.Sandboxes[i].IPs)
	}
	c.Containers = slices.Clone(s.Containers)
	return &c
}
