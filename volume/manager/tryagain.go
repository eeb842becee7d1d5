package manager

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// TryAgain has everything tried again at once that a plugin has failed to do: what it
// needs has come, as a driver that has registered. It never blocks.
func (m *Manager) TryAgain(plugin string) {
	m.mu.Lock()
	m.world.tryAgain(plugin)
	m.mu.Unlock()
	m.wake.Wake()
}

// tryAgain ends the pauses after failures. An operation that runs may have looked too
// early: if it fails, its pause is the first one.
func (w *world) tryAgain(plugin string) {
	now := func(a actor) {
		a.base().retry = retry{}
		w.touch(a)
	}
	for _, p := range w.pods {
		for key, v := range p.volumes {
			if key.plugin == plugin {
				now(v)
			}
		}
	}
	for id, s := range w.shared {
		if id.Plugin == plugin {
			now(s)
		}
	}
	if l := w.lists[plugin]; l != nil {
		now(l)
	}
}

// Pods are those of which there is something, sorted: of pods that nobody knows any more,
// too.
func (m *Manager) Pods() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.world.pods))
}
