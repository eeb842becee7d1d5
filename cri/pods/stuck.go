package pods

import (
	"fmt"
	"maps"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/labels"
)

// manyRefusals is how often in a row the runtime refuses to remove a container before a
// person is told what helps. A start that goes on behind its caller's back is a reason to
// refuse, too, but ends within seconds.
const manyRefusals = 5

// refusals counts how often in a row the runtime has refused to remove containers, by ID.
type refusals struct {
	mu     sync.Mutex
	counts map[string]int
}

func (r *refusals) add(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[id]++
	return r.counts[id]
}

func (r *refusals) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.counts, id)
}

// retain forgets containers that do not exist any more.
func (r *refusals) retain(exists map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.counts, func(id string, _ int) bool { return !exists[id] })
}

// refused adds to the error of a removal what a person can do, if the runtime refuses it
// again and again, and records that once. A runtime that is away has refused nothing.
func (m *Manager) refused(p labels.Pod, name, id string, err error) error {
	switch status.Code(err) {
	case codes.Unknown, codes.Internal, codes.FailedPrecondition:
	default:
		return err
	}
	n := m.refusals.add(id)
	if n < manyRefusals {
		return err
	}
	remedy := fmt.Sprintf("the runtime has refused to remove container %s (%s) %d times in a row: a start of it that was cut off may have left a "+
		"process \"runc init\" behind, which ps shows below a containerd-shim; kill that shim, or restart the runtime", name, id, n)
	if n == manyRefusals {
		m.log.Error(remedy, "pod", p.Namespace+"/"+p.Name, "err", err)
		m.cfg.Event(podIdentity{Pod: p}.ref(), v1.EventTypeWarning, "FailedRemoveContainer", remedy)
	}
	return fmt.Errorf("%s: %w", remedy, err)
}
