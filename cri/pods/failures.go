package pods

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/pleg/observed"
)

// StartFailure is why the last start of a container failed: its waiting reason.
type StartFailure struct {
	Reason, Message string
}

// StartFailures returns, by container name, why containers of a pod were not
// started when it was last tried. A start that succeeded has no entry, one that
// was cancelled leaves the entry as it was. The map belongs to the caller.
func (m *Manager) StartFailures(uid types.UID) map[string]StartFailure {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]StartFailure, len(m.failures[uid]))
	for name, f := range m.failures[uid] {
		out[name] = StartFailure{Reason: f.Reason, Message: f.Message}
	}
	return out
}

// Forget drops what is remembered of a pod, once it is gone for good.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	delete(m.failures, uid)
	delete(m.restored, uid)
	m.mu.Unlock()
	m.crashLoop.Forget(crashLoopPrefix(uid))
	m.trimBackoff(time.Now())
	if images, ok := m.cfg.Images.(ImagesForgetter); ok {
		images.Forget(uid)
	}
	if m.cfg.Actuated == nil {
		return
	}
	if err := m.cfg.Actuated.Save(uid, actions.Actuated{}); err != nil {
		m.log.Warn("cannot forget the resources of a pod", "podUID", uid, "err", err)
	}
}

// Retain drops what is remembered of all sandboxes and containers but those that
// exist, by ID, and of crash loops that are long over.
func (m *Manager) Retain(exists map[string]bool) {
	m.trimBackoff(time.Now())
	m.preStops.retain(exists)
	m.refusals.retain(exists)
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.stopped, func(id string, _ bool) bool { return !exists[id] })
}

// trimBackoff drops delays that can no longer hold anything back: forgotten for
// an exit that is as old as the longest delay.
func (m *Manager) trimBackoff(now time.Time) { m.crashLoop.Trim(now.Add(-m.cfg.MaxCrashLoopDelay)) }

func (m *Manager) recordFailure(uid types.UID, f *StartError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures[uid] == nil {
		m.failures[uid] = map[string]*StartError{}
	}
	m.failures[uid][f.Container] = f
}

// heldBack is the end of the last instance of a container that is held back, nil if it
// is not.
func (m *Manager) heldBack(uid types.UID, container string) *observed.Container {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.failures[uid][container]; f != nil {
		return f.exit
	}
	return nil
}

func (m *Manager) clearFailure(uid types.UID, container string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failures[uid], container)
	if len(m.failures[uid]) == 0 {
		delete(m.failures, uid)
	}
}
