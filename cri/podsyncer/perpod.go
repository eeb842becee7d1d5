package podsyncer

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// perPod maps pods to one value each. A missing pod has the zero value. It is safe for concurrent
// use.
type perPod[T comparable] struct {
	mu sync.Mutex
	m  map[types.UID]T
}

func (p *perPod[T]) get(uid types.UID) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m[uid]
}

// set replaces a pod's value; the zero value removes it.
func (p *perPod[T]) set(uid types.UID, fact T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var none T
	if fact == none {
		delete(p.m, uid)
		return
	}
	if p.m == nil {
		p.m = map[types.UID]T{}
	}
	p.m[uid] = fact
}

func (p *perPod[T]) drop(uid types.UID) {
	var none T
	p.set(uid, none)
}

func (p *perPod[T]) uids() []types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.m))
}
