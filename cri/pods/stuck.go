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

// manyRefusals is the number of consecutive refused removals of a container before a remedy is
// reported. A start that continues after its caller has left also causes refusals, but only for
// seconds.
const manyRefusals = 5

// refusals counts consecutive refused removals of containers, by ID.
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

// retain drops the counts of containers that no longer exist.
func (r *refusals) retain(exists map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.counts, func(id string, _ int) bool { return !exists[id] })
}

// refused counts a refused removal. From manyRefusals on it adds a remedy to the error; the first
// time it also records the remedy as event and log. An unavailable runtime does not count.
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
	remedy := fmt.Sprintf("the runtime has refused %[3]d times in a row to remove container %[1]s (%[2]s): an interrupted start may have left a "+
		"\"runc init\" process under a containerd-shim; find it with ps and kill that shim, or restart the runtime", name, id, n)
	if n == manyRefusals {
		m.log.Error(remedy, "pod", p.Namespace+"/"+p.Name, "err", err)
		m.cfg.Event(podIdentity{Pod: p}.ref(), v1.EventTypeWarning, "FailedRemoveContainer", remedy)
	}
	return fmt.Errorf("%s: %w", remedy, err)
}
