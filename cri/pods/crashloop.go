package pods

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	v1 "k8s.io/api/core/v1"

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
