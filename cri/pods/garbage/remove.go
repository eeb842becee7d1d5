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

// ErrRunning is returned for the removal of a running container.
var ErrRunning = errors.New("still running")

// CleanRequest is the input of CleanDeadContainers.
type CleanRequest struct {
	// Status is the pod's state in the runtime.
	Status *observed.Pod
	// Keep is the number of exited instances to keep per container name, newest first. Default:
	// 1, because the last instance has the restart count and the last termination state.
	Keep int
	// All removes all exited instances, because the pod's content is removable.
	All bool
}

// CleanDeadContainers removes exited containers, with their logs, except the number to keep. Call
// it after a container has died.
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

// RemovePod removes a stopped pod from the runtime with its logs, and calls Forget. It returns an
// error if the status has another UID, and ErrRunning if a container may still be running.
func (c *Collector) RemovePod(ctx context.Context, uid types.UID, status *observed.Pod) error {
	if err := check(status); err != nil {
		return fmt.Errorf("garbage: remove pod %s: %w", uid, err)
	}
	if status.UID != uid {
		return fmt.Errorf("garbage: remove pod %s: the Status has UID %q", uid, status.UID)
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
