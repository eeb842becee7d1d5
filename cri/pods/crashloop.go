package pods

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

// backOff refuses to start a container that has ended too often too recently, and
// records that. The delay counts from exit, the end of the last instance, so that
// an agent which was away does not add to it; without one nothing is held back.
func (s *podSync) backOff(c podContainer, exit *observed.Container) *StartError {
	if exit == nil {
		return nil
	}
	key := crashLoopKey(s.req.Pod, c.Container)
	// What ended with its sandbox, as at a reboot, did not crash, but for what was held
	// back before that.
	if held := s.m.heldBack(s.identity.UID, c.Name); exit.SandboxID == s.sandbox.id || held != nil && held.ID == exit.ID {
		s.m.restoreBackOff(s.identity.UID, key, c.Container, exit)
	}
	until := s.m.crashLoop.Until(key, exit.FinishedAt)
	if !time.Now().Before(until) {
		return nil
	}
	s.m.cfg.Event(s.identity.containerRef(s.req.Pod, c.Name), v1.EventTypeWarning, "BackOff",
		fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, s.identity))
	return &StartError{
		Container: c.Name,
		Reason:    ReasonCrashLoopBackOff,
		Message:   fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", s.m.crashLoop.Delay(key), c.Name, s.identity),
		notBefore: until,
		key:       key,
		exit:      exit,
	}
}

// HeldBack returns the containers of a pod that are held back after crashes, by name,
// each with what its back-off belongs to: it changes with whatever gives the container a
// new chance. It is nil if there are none. The map belongs to the caller.
func (m *Manager) HeldBack(uid types.UID) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out map[string]string
	for name, f := range m.failures[uid] {
		if f.exit == nil {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = f.key
	}
	return out
}

// RestoreBackOff takes over from an earlier agent which containers of a pod it held back:
// what its HeldBack and the pod's status were when they were saved. They are held back
// until the same moment, also if the runtime has nothing of them any more. It comes
// before the pod's first SyncPod.
func (m *Manager) RestoreBackOff(pod *v1.Pod, saved *v1.PodStatus, held map[string]string) {
	now := time.Now()
	for _, list := range [][]v1.ContainerStatus{saved.InitContainerStatuses, saved.ContainerStatuses} {
		for i := range list {
			c, waiting, ended := podfacts.Container(pod, list[i].Name), list[i].State.Waiting, list[i].LastTerminationState.Terminated
			if c == nil || waiting == nil || ended == nil || held[c.Name] != crashLoopKey(pod, c) {
				continue
			}
			_, id, _ := strings.Cut(ended.ContainerID, "://")
			m.recordFailure(pod.UID, &StartError{
				Container: c.Name, Reason: ReasonCrashLoopBackOff, Message: waiting.Message,
				key: held[c.Name],
				exit: &observed.Container{
					ID: observed.ContainerID{Runtime: m.cfg.RuntimeName, ID: id}, Name: c.Name, State: observed.StateExited,
					StartedAt: earlier(ended.StartedAt.Time, now), FinishedAt: earlier(ended.FinishedAt.Time, now), RestartCount: list[i].RestartCount,
				},
			})
		}
	}
}

// restoreBackOff takes from an end what an earlier agent knew: how often a container
// was started again, and when last. Instances of this Manager are in its own records,
// and what has another image is another matter. It does so once for a container:
// what has changed since, such as resources, gives it a new chance.
func (m *Manager) restoreBackOff(uid types.UID, key string, c *v1.Container, exit *observed.Container) {
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
	_ = json.NewEncoder(h).Encode([]any{pod.Name, pod.Namespace, c.Name, c.Image, c.Resources})
	return fmt.Sprintf("%s%x", crashLoopPrefix(pod.UID), h.Sum(nil))
}

// crashLoopPrefix is what the keys of a pod begin with.
func crashLoopPrefix(uid types.UID) string { return string(uid) + "/" }

// lastExit is the end of a container's last instance: as the runtime has it, or else as
// it was when the container began to be held back. It is nil if there is none. An end
// that is yet to come, by the runtime's clock or since the clock was set, was when it
// was first seen.
func (s *podSync) lastExit(c podContainer) *observed.Container {
	seen, held := lastExit(s.req.Status, c.Name), s.m.heldBack(s.identity.UID, c.Name)
	if seen == nil {
		return held
	}
	exit := *seen
	exit.FinishedAt = earlier(exit.FinishedAt, time.Now())
	if held != nil && held.ID == exit.ID {
		exit.FinishedAt = earlier(exit.FinishedAt, held.FinishedAt)
	}
	return &exit
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// lastExit returns the newest exited instance of a container, or nil.
func lastExit(s *observed.Pod, name string) *observed.Container {
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && c.State == observed.StateExited {
			return c
		}
	}
	return nil
}
