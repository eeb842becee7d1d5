package garbage

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

// ErrRunning says that something which still runs was to be removed.
var ErrRunning = errors.New("still running")

// CleanRequest asks for the removal of a pod's dead containers.
type CleanRequest struct {
	// Status is what the runtime has of the pod.
	Status *observed.Pod
	// Keep is how many exited instances are kept per container name, the newest
	// ones. Zero means 1: the last one carries the restart count and the last
	// termination state.
	Keep int
	// All keeps none: the pod's content may go.
	All bool
}

// CleanDeadContainers removes exited containers, with their logs, beyond those
// that are kept. It is what to do when a container has died.
func (c *Collector) CleanDeadContainers(ctx context.Context, r CleanRequest) error {
	if err := check(r.Status); err != nil {
		return fmt.Errorf("garbage: CleanRequest: %w", err)
	}
	keep := max(r.Keep, 1)
	if r.All {
		keep = 0
	}
	p := podOf(r.Status)
	seen := map[string]int{}
	var errs []error
	for _, dead := range r.Status.Containers {
		if dead.State != observed.StateExited {
			continue
		}
		if seen[dead.Name]++; seen[dead.Name] <= keep {
			continue
		}
		if err := c.cfg.Pods.RemoveContainer(ctx, p, dead.Name, dead.ID.ID); err != nil {
			errs = append(errs, err)
		}
	}
	if err := run.Join(errs...); err != nil {
		return fmt.Errorf("clean dead containers of pod %s: %w", p, err)
	}
	return nil
}

// RemovePod removes everything of a stopped pod from the runtime, with its logs,
// and forgets it. A status of another pod is refused. ErrRunning says that something of it runs.
func (c *Collector) RemovePod(ctx context.Context, uid types.UID, status *observed.Pod) error {
	if err := check(status); err != nil {
		return fmt.Errorf("garbage: remove pod %s: %w", uid, err)
	}
	if status.UID != uid {
		return fmt.Errorf("garbage: remove pod %s: the status is of another pod: its UID is %q", uid, status.UID)
	}
	p := podOf(status)
	errs := run.Each(len(status.Containers), func(i int) error {
		dead := &status.Containers[i]
		if dead.State == observed.StateRunning || dead.State == observed.StateUnknown {
			return fmt.Errorf("container %s: %w", dead.Name, ErrRunning)
		}
		return c.cfg.Pods.RemoveContainer(ctx, p, dead.Name, dead.ID.ID)
	})
	if err := run.Join(errs...); err != nil {
		return fmt.Errorf("remove pod %s: %w", p, err)
	}
	errs = run.Each(len(status.Sandboxes), func(i int) error {
		return c.cfg.Pods.RemoveSandbox(ctx, status.Sandboxes[i].ID)
	})
	if err := run.Join(errs...); err != nil {
		return fmt.Errorf("remove pod %s: %w", p, err)
	}
	if err := c.cfg.Pods.Files().RemovePodLogs(uid); err != nil {
		return fmt.Errorf("remove pod %s: %w", p, err)
	}
	c.cfg.Pods.Forget(uid)
	return nil
}

// check refuses a status that is nobody's.
func check(s *observed.Pod) error {
	switch {
	case s == nil:
		return errors.New("the Status is required")
	case s.UID == "":
		return errors.New("Status.UID is required")
	}
	return nil
}

func podOf(s *observed.Pod) labels.Pod {
	return labels.Pod{UID: s.UID, Name: s.Name, Namespace: s.Namespace}
}
