package pods

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/pleg/observed"
)

// StartFailures returns the failures of the last starts of a pod's containers, by container name.
// A successful start has no entry; a cancelled one leaves the entry unchanged. The caller owns
// the map.
func (m *Manager) StartFailures(uid types.UID) map[string]podwright.Reason {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]podwright.Reason, len(m.failures[uid]))
	for name, f := range m.failures[uid] {
		out[name] = podwright.Reason{Reason: f.Reason, Message: f.Message}
	}
	return out
}

// Forget drops the state of a pod that was removed for good.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	delete(m.failures, uid)
	delete(m.restored, uid)
	m.mu.Unlock()
	m.crashLoop.Forget(crashLoopPrefix(uid))
	m.sandboxes.Forget(crashLoopPrefix(uid))
	m.trimBackoff(time.Now())
	if images, ok := m.cfg.Images.(ImagesForgetter); ok {
		images.Forget(uid)
	}
	if m.cfg.Actuated == nil {
		return
	}
	if err := m.cfg.Actuated.Save(uid, actions.Actuated{}); err != nil {
		m.log.Warn("removing the saved resources of a pod failed", "podUID", uid, "err", err)
	}
}

// Retain drops the state of all sandboxes and containers whose ID is not in exists, and of expired
// crash loops.
func (m *Manager) Retain(exists map[string]bool) {
	m.trimBackoff(time.Now())
	m.preStops.retain(exists)
	m.refusals.retain(exists)
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.stopped, func(id string, _ bool) bool { return !exists[id] })
}

// trimBackoff drops the delays for exits older than the longest delay.
func (m *Manager) trimBackoff(now time.Time) {
	m.crashLoop.Trim(now.Add(-m.cfg.MaxCrashLoopDelay))
	m.sandboxes.Trim(now)
}

func (m *Manager) recordFailure(uid types.UID, f *StartError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures[uid] == nil {
		m.failures[uid] = map[string]*StartError{}
	}
	m.failures[uid][f.Container] = f
}

// backedOff returns the exit of a container in back-off, or nil if it is not in back-off.
func (m *Manager) backedOff(uid types.UID, container string) *observed.Container {
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
