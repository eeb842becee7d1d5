package stagestest

import (
	"context"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/stages"
)

var _ stages.Stage = (*Memory)(nil)

// Memory is an in-memory stage whose only resource is the pod's UID. Its state outlasts the
// agents that use it. Use NewMemory. It is safe for concurrent use.
type Memory struct {
	mu        sync.Mutex
	resources map[types.UID]bool
	blocked   map[types.UID]chan struct{}
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{resources: map[types.UID]bool{}, blocked: map[types.UID]chan struct{}{}}
}

// Prepare implements stages.Stage.
func (m *Memory) Prepare(ctx context.Context, pod *v1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	m.resources[pod.UID] = true
	return nil
}

// Release implements stages.Stage.
func (m *Memory) Release(ctx context.Context, uid types.UID) error {
	m.mu.Lock()
	blocked := m.blocked[uid]
	m.mu.Unlock()
	if blocked != nil {
		select {
		case <-blocked:
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	delete(m.resources, uid)
	return nil
}

// Leftovers implements stages.Stage.
func (m *Memory) Leftovers(ctx context.Context) ([]types.UID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.resources)), ctx.Err()
}

// Holds reports whether the pod is prepared and not released.
func (m *Memory) Holds(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resources[uid]
}

// Block makes every Release of a pod wait until unblock is called or its context is done. Further
// calls of unblock have no effect.
func (m *Memory) Block(uid types.UID) (unblock func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	blocked := make(chan struct{})
	m.blocked[uid] = blocked
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.blocked[uid] == blocked { // not a later Block
			delete(m.blocked, uid)
		}
		close(blocked)
	})
}
