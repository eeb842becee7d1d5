package pods

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg"
)

// backOff refuses to start a container that has ended too often too recently, and
// records that. The delay counts from exit, the end of the last instance, so that
// an agent which was away does not add to it; without one nothing is held back.
func (s *podSync) backOff(c podContainer, exit *pleg.ContainerStatus) *StartError {
	if exit == nil {
		return nil
	}
	key := crashLoopKey(s.req.Pod, c.Container)
	if exit.SandboxID == s.sandbox.id { // what ended with its sandbox, as at a reboot, did not crash
		s.m.restoreBackOff(s.identity.UID, key, c.Container, exit)
	}
	until := s.m.crashLoop.Until(key, exit.FinishedAt)
	if !time.Now().Before(until) {
		return nil
	}
	s.m.cfg.Event(s.identity.kindRef(c.kind, c.Name), v1.EventTypeWarning, "BackOff",
		fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, s.identity))
	return &StartError{
		Container: c.Name,
		Reason:    ReasonCrashLoopBackOff,
		Message:   fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", s.m.crashLoop.Delay(key), c.Name, s.identity),
		notBefore: until,
	}
}

// restoreBackOff takes from the runtime what an earlier agent knew: how often a container
// was started again, and when last. Instances of this Manager are in its own records,
// and what has another image is another matter. It does so once for a container:
// what has changed since, such as resources, gives it a new chance.
func (m *Manager) restoreBackOff(uid types.UID, key string, c *v1.Container, exit *pleg.ContainerStatus) {
	if exit.CreatedAt.After(m.began) || exit.Hash != 0 && exit.Hash != podfacts.Hash(c) {
		return
	}
	m.mu.Lock()
	known := m.restored[uid][c.Name]
	if m.restored[uid] == nil {
		m.restored[uid] = map[string]bool{}
	}
	m.restored[uid][c.Name] = true
	m.mu.Unlock()
	if known {
		return
	}
	started := exit.StartedAt
	if started.IsZero() {
		started = exit.CreatedAt
	}
	m.crashLoop.Restore(key, int(exit.RestartCount), started)
}

// crashLoopKey changes with everything that gives a crashing container a new
// chance.
func crashLoopKey(pod *v1.Pod, c *v1.Container) string {
	h := fnv.New128a()
	// Encoding these types cannot fail, and nothing but the key would suffer.
	_ = json.NewEncoder(h).Encode([]any{pod.Name, pod.Namespace, pod.UID, c.Name, c.Image, c.Resources})
	return fmt.Sprintf("%x", h.Sum(nil))
}

// lastExit returns the newest exited instance of a container, or nil.
func lastExit(s *pleg.PodStatus, name string) *pleg.ContainerStatus {
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && c.State == pleg.StateExited {
			return c
		}
	}
	return nil
}
