package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/volume"
)

// Volume returns a mounted volume of a pod by its name in the pod's spec. It implements
// request.Volumes. A volume that is not mounted is an error that says what it waits for.
func (m *Manager) Volume(_ context.Context, pod *v1.Pod, name string) (volume.Mounted, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.reconciler.pods[pod.UID]
	if p == nil || p.names[name] == nil || p.releasing {
		return volume.Mounted{}, fmt.Errorf("volume %q of pod %s is not prepared: %w", name, pod.UID, volume.ErrNotFound)
	}
	n := p.names[name]
	if n.volume == nil || !n.volume.ready() {
		for _, s := range m.reconciler.explain(p, time.Now()) {
			if s.Name == name {
				return volume.Mounted{}, fmt.Errorf("volume of pod %s is not mounted: %v", p.name(), s)
			}
		}
	}
	out := n.volume.mounted
	out.ReadOnly = out.ReadOnly || n.readOnly
	return out, nil
}

// Volumes returns the states of a pod's volumes: first those that it uses, in the order of
// its spec, then those that were found on disk. It is nil for a pod without volumes.
func (m *Manager) Volumes(uid types.UID) []VolumeState {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.reconciler.pods[uid]
	if p == nil {
		return nil
	}
	return m.reconciler.explain(p, time.Now())
}

// Explain returns the states of a pod's volumes, as Volumes does.
func (m *Manager) Explain(uid types.UID) (out []podwright.Explanation) {
	for _, s := range m.Volumes(uid) {
		out = append(out, s.explanation())
	}
	return out
}

// Pods are those of which there is something, sorted: of pods that nobody knows any more,
// too.
func (m *Manager) Pods() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.reconciler.pods))
}

// Objects are those that volumes are made of, of all pods, in no order: whoever watches
// objects has to go on with these.
func (m *Manager) Objects() []volume.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.reconciler.objects))
}

// InUse are the names of the volumes that have to stay attached to the node, sorted, as
// nodes report them, those included of which it is not known whether they are attached at
// all. It is not known before the disk was read.
func (m *Manager) InUse() (names []string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.started:
		return m.reconciler.inUse(), len(m.reconciler.unread) == 0 && m.reconciler.allListed()
	default:
		return nil, false
	}
}

// Count is how many volumes of pods there are of a plugin in a state.
type Count struct {
	Plugin string
	State  State
	// Wanted tells that the pods use it, and do not end.
	Wanted bool
}

// Counts counts the volumes of pods. It looks at all of them.
func (m *Manager) Counts() map[Count]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[Count]int{}
	for _, p := range m.reconciler.pods {
		for key, v := range p.volumes {
			out[Count{key.plugin, v.state, v.wanted}]++
		}
	}
	return out
}
