package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
)

// chaosHistory records the observed containers of a node. Two containers of one pod name and
// container name must never run at the same time, even with different UIDs, and a container that
// was seen running must not be replaced without a cause.
type chaosHistory struct {
	node *node
	// causes counts the ordered exits by pod name.
	causes map[string]int
	// ran has the containers that were seen running; instances has their IDs by pod UID and
	// container name.
	ran       map[string]bool
	instances map[string][]string
	// placed has the containers that were seen in their pods' cgroups; outside has the time since
	// which others were seen outside.
	placed     map[string]bool
	outside    map[string]time.Time
	violations error
}

func newChaosHistory(n *node) *chaosHistory {
	return &chaosHistory{node: n, causes: map[string]int{}, ran: map[string]bool{}, instances: map[string][]string{}, placed: map[string]bool{}, outside: map[string]time.Time{}}
}

// observeThen checks the runtime and then cond.
func (h *chaosHistory) observeThen(cond func() error) error {
	h.observe()
	return cond()
}

// observe checks the running containers. It ignores an unavailable runtime.
func (h *chaosHistory) observe() {
	list, err := h.node.containers()
	if err != nil {
		return
	}
	now := map[string]string{}
	for _, c := range list {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		name := c.Labels[labels.PodName]
		if other := now[name+"/"+c.Metadata.Name]; other != "" {
			h.violations = errors.Join(h.violations, fmt.Errorf("%s runs twice, as %s and %s", name, other, c.Id))
		}
		now[name+"/"+c.Metadata.Name] = c.Id
		if !h.placed[c.Id] {
			h.checkCgroup(c)
		}
		if h.ran[c.Id] {
			continue
		}
		h.ran[c.Id] = true
		unit := c.Labels[labels.PodUID] + "/" + c.Metadata.Name
		h.instances[unit] = append(h.instances[unit], c.Id)
		if is := h.instances[unit]; len(is) > 1+h.causes[name] {
			h.violations = errors.Join(h.violations, fmt.Errorf("%s ran as %v after %d ordered exits", name, is, h.causes[name]))
		}
	}
}

// checkCgroup checks that a running container is in its pod's cgroup. A container that has exited
// without the runtime's notice may be outside for a moment.
func (h *chaosHistory) checkCgroup(c *runtimeapi.Container) {
	cgroup, err := cgroupsOf(h.node, c.Labels[labels.PodUID], c.Id)
	since, outside := h.outside[c.Id]
	switch {
	case err != nil || len(cgroup) > 0:
		h.violations = errors.Join(h.violations, err)
		h.placed[c.Id] = true
	case !outside:
		h.outside[c.Id] = time.Now()
	case time.Since(since) > 30*time.Second:
		h.violations = errors.Join(h.violations, fmt.Errorf("%s: container %s runs outside its pod's cgroup", c.Labels[labels.PodName], c.Id))
		h.placed[c.Id] = true
	}
}

// cgroupsOf returns the folders of a pod's cgroup, or of a container's cgroup in it, in the memory
// hierarchy. The uid "*" matches all pods.
func cgroupsOf(n *node, uid, container string) ([]string, error) {
	at := "/sys/fs/cgroup/memory/podwright-" + n.name + "/kubepods"
	own, err := filepath.Glob(filepath.Join(at, "pod"+uid, container))
	below, err2 := filepath.Glob(filepath.Join(at, "*", "pod"+uid, container))
	return append(own, below...), errors.Join(err, err2)
}

// checkCgroups returns an error unless exactly the given pods have cgroups with processes.
func (c *chaos) checkCgroups(pods []v1.Pod, ids map[string]string) error {
	left, err := cgroupsOf(c.node, "*", "")
	for _, pod := range pods {
		if ids[pod.Name+"/c"] != "" {
			left = slices.DeleteFunc(left, func(dir string) bool { return strings.HasSuffix(dir, "/pod"+string(pod.UID)) })
		}
	}
	return errors.Join(err, listError("unused cgroups", left))
}

// converged returns a condition: API server, runtime and cgroups contain exactly the desired pods.
func (c *chaos) converged(t *testing.T) func() error {
	return func() error {
		have := c.pods(t)
		ids, err := c.running()
		if err != nil { // a connection to a restarted runtime takes time to reconnect
			return err
		}
		if len(have) != len(c.desired) {
			return fmt.Errorf("%d pods, want %d", len(have), len(c.desired))
		}
		errs := []error{c.checkCgroups(have, ids)}
		for i := range have {
			errs = append(errs, c.matchesDesired(&have[i], ids))
			delete(ids, have[i].Name+"/c")
		}
		if len(ids) > 0 {
			errs = append(errs, fmt.Errorf("unexpected containers run: %v", ids))
		}
		return errors.Join(errs...)
	}
}

func (c *chaos) matchesDesired(pod *v1.Pod, ids map[string]string) error {
	if !c.desired[pod.Name] || len(pod.Status.ContainerStatuses) != 1 {
		return fmt.Errorf("%s: desired: %t, containers: %v", pod.Name, c.desired[pod.Name], pod.Status.ContainerStatuses)
	}
	s := pod.Status.ContainerStatuses[0]
	id := ids[pod.Name+"/c"]
	if c.codes[pod.Name] != 0 {
		if pod.Status.Phase != v1.PodFailed || s.State.Terminated == nil || id != "" {
			return fmt.Errorf("%s has not ended: %s %v, runs: %q", pod.Name, pod.Status.Phase, s.State, id)
		}
		return nil
	}
	if !s.Ready || id == "" || !strings.HasSuffix(s.ContainerID, id) {
		return fmt.Errorf("%s does not run: %s, %v, runs: %q", pod.Name, s.ContainerID, s.State, id)
	}
	if end := s.LastTerminationState.Terminated; s.RestartCount > 0 && (end == nil || end.ExitCode != 3 && !lostByRuntime(end)) {
		return fmt.Errorf("%s has %d restarts, the last exit is missing or wrong: %v", pod.Name, s.RestartCount, end)
	}
	return nil
}

// mountsBelow returns the mount points below a folder, without the folder itself.
func mountsBelow(folder string) (out []string, err error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], folder) {
			out = append(out, fields[4])
		}
	}
	return out, err
}
