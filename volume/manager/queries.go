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
// request.Volumes. The error for a volume that is not mounted contains its state. It wraps
// volume.ErrNotFound if the volume was not prepared.
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

// Volumes returns the states of a pod's volumes: first the volumes that it uses, in the order
// of its spec, then others on the disk. It returns nil for a pod without volumes.
func (m *Manager) Volumes(uid types.UID) []VolumeState {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.reconciler.pods[uid]
	if p == nil {
		return nil
	}
	return m.reconciler.explain(p, time.Now())
}

// Explain returns the states of a pod's volumes as explanations.
func (m *Manager) Explain(uid types.UID) (out []podwright.Explanation) {
	for _, s := range m.Volumes(uid) {
		out = append(out, s.explanation())
	}
	return out
}

// Pods returns the sorted UIDs of all pods with state, including pods that no source names.
func (m *Manager) Pods() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.reconciler.pods))
}

// Objects returns the objects with content of mounted or requested volumes of all pods,
// unordered. An agent must continue to watch them.
func (m *Manager) Objects() []volume.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.reconciler.objects))
}

// InUse returns the sorted names of the volumes that must stay attached to the node, in the
// form for the node status. They include volumes whose need for an attachment is unknown. known
// is false before the disk was read.
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

// Count identifies volumes with a plugin and a state in the result of Counts.
type Count struct {
	Plugin string
	State  State
	// Wanted is true if the pod uses the volume and was not released.
	Wanted bool
}

// Counts returns the number of pods' volumes by Count. It visits all volumes.
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
