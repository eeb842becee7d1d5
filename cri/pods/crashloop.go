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

// backOff returns an error and records an event if a container is in back-off after crashes. The
// delay starts at the exit of the last instance, so that time without an agent counts. Without an
// exit there is no delay.
func (s *podSync) backOff(c podContainer, exit *observed.Container) *StartError {
	if exit == nil {
		return nil
	}
	key := crashLoopKey(s.req.Pod, c.Container)
	// An exit together with its sandbox, as in a reboot, is no crash, unless the container was in
	// back-off before.
	if backedOffExit := s.m.backedOff(s.identity.UID, c.Name); exit.SandboxID == s.sandbox.id || backedOffExit != nil && backedOffExit.ID == exit.ID {
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

// HeldBack returns the containers of a pod that are in back-off after crashes, by name, with the
// key of the back-off. The key changes with each change that ends a back-off, such as a new
// image. The result is nil without back-offs. The caller owns the map.
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

// RestoreBackOff restores the back-offs of a pod from an earlier agent. saved and keys are the
// pod's status and the result of HeldBack at the time they were saved. The containers stay in
// back-off until the same time, even if the runtime no longer lists them. Call it before the
// pod's first SyncPod.
func (m *Manager) RestoreBackOff(pod *v1.Pod, saved *v1.PodStatus, keys map[string]string) {
	now := time.Now()
	for _, list := range [][]v1.ContainerStatus{saved.InitContainerStatuses, saved.ContainerStatuses} {
		for i := range list {
			c, waiting, ended := podfacts.Container(pod, list[i].Name), list[i].State.Waiting, list[i].LastTerminationState.Terminated
			if c == nil || waiting == nil || ended == nil || keys[c.Name] != crashLoopKey(pod, c) {
				continue
			}
			_, id, _ := strings.Cut(ended.ContainerID, "://")
			m.recordFailure(pod.UID, &StartError{
				Container: c.Name, Reason: ReasonCrashLoopBackOff, Message: waiting.Message,
				key: keys[c.Name],
				exit: &observed.Container{
					ID: observed.ContainerID{Runtime: m.cfg.RuntimeName, ID: id}, Name: c.Name, State: observed.StateExited,
					StartedAt: earlier(ended.StartedAt.Time, now), FinishedAt: earlier(ended.FinishedAt.Time, now), RestartCount: list[i].RestartCount,
				},
			})
		}
	}
}

// restoreBackOff restores the restart count and last start of a container from an exit that an
// earlier agent observed. It ignores instances of this Manager, which are in its own records, and
// instances with another image. It runs once per container: a later change, such as new
// resources, ends the back-off.
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

// crashLoopKey returns the key of a back-off. It changes with each change that ends a back-off.
func crashLoopKey(pod *v1.Pod, c *v1.Container) string {
	h := fnv.New128a()
	// Encoding these types cannot fail, and an error would only affect the key.
	_ = json.NewEncoder(h).Encode([]any{pod.Name, pod.Namespace, c.Name, c.Image, c.Resources})
	return fmt.Sprintf("%s%x", crashLoopPrefix(pod.UID), h.Sum(nil))
}

// crashLoopPrefix is the prefix of a pod's keys.
func crashLoopPrefix(uid types.UID) string { return string(uid) + "/" }

// lastExit returns the exit of a container's last instance from the runtime, or the exit that
// began its back-off, or nil. An exit in the future (by the runtime's clock, or after the clock
// was set back) counts from when it was first observed.
func (s *podSync) lastExit(c podContainer) *observed.Container {
	seen, backedOffExit := lastExit(s.req.Status, c.Name), s.m.backedOff(s.identity.UID, c.Name)
	if seen == nil {
		return backedOffExit
	}
	exit := *seen
	exit.FinishedAt = earlier(exit.FinishedAt, time.Now())
	if backedOffExit != nil && backedOffExit.ID == exit.ID {
		exit.FinishedAt = earlier(exit.FinishedAt, backedOffExit.FinishedAt)
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
