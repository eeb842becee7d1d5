package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/pleg"
)

// ErrRunning says that something which still runs was to be removed.
var ErrRunning = errors.New("still running")

// CleanRequest asks for the removal of a pod's dead containers.
type CleanRequest struct {
	// Status is what the runtime has of the pod.
	Status *pleg.PodStatus
	// Keep is how many exited instances are kept per container name, the newest
	// ones. Zero means 1: the last one carries the restart count and the last
	// termination state.
	Keep int
	// All keeps none: the pod's content may go.
	All bool
}

// CleanDeadContainers removes exited containers, with their logs, beyond those
// that are kept. It is what to do when a container has died.
func (m *Manager) CleanDeadContainers(ctx context.Context, r CleanRequest) error {
	keep := max(r.Keep, 1)
	if r.All {
		keep = 0
	}
	p := identityOfStatus(r.Status)
	seen := map[string]int{}
	var errs []error
	for _, c := range r.Status.Containers {
		if c.State != pleg.StateExited {
			continue
		}
		if seen[c.Name]++; seen[c.Name] <= keep {
			continue
		}
		if err := m.removeContainer(ctx, p, c.Name, c.ID.ID, false); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean dead containers of pod %s: %w", p, err)
	}
	return nil
}

// RemovePod removes everything of a stopped pod from the runtime, with its logs,
// and forgets it. ErrRunning says that something of it runs.
func (m *Manager) RemovePod(ctx context.Context, uid types.UID, status *pleg.PodStatus) error {
	p := identityOfStatus(status)
	p.UID = uid
	errs := parallel(len(status.Containers), func(i int) error {
		c := &status.Containers[i]
		if c.State == pleg.StateRunning || c.State == pleg.StateUnknown {
			return fmt.Errorf("container %s: %w", c.Name, ErrRunning)
		}
		return m.removeContainer(ctx, p, c.Name, c.ID.ID, false)
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove pod %s: %w", p, err)
	}
	errs = parallel(len(status.Sandboxes), func(i int) error {
		return m.removeSandbox(ctx, status.Sandboxes[i].ID)
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove pod %s: %w", p, err)
	}
	if err := errors.Join(m.removeLinks(p), m.removeLogDir(p)); err != nil {
		return fmt.Errorf("remove pod %s: logs: %w", p, err)
	}
	m.Forget(uid)
	return nil
}

// removeLogDir removes a pod's log directory. Where the runtime has nothing that
// names the pod, since its sandbox was never made, the UID finds the directory.
func (m *Manager) removeLogDir(p podIdentity) error {
	if p.Name != "" {
		return os.RemoveAll(m.podLogDir(p))
	}
	entries, err := os.ReadDir(m.cfg.LogRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		if uid, ok := uidOfLogDir(e.Name()); ok && uid == p.UID && e.IsDir() {
			errs = append(errs, os.RemoveAll(filepath.Join(m.cfg.LogRoot, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// removeContainer removes a container with its logs and its termination message
// file, but never one that runs. Files go first: if one of them resists, the
// container stays as the reminder to try again. Not so with one that was only
// created: an agent that died may have been starting it, and the runtime, which
// then refuses to remove it, may still come to the end of that. The log is that of
// a living container then; else it is the one that the successor goes on with.
//
// With keepLogs its logs and the link to them stay, and only they: a container
// that is reset has its restarts counted by its logs (KEP-5532).
func (m *Manager) removeContainer(ctx context.Context, p podIdentity, name, id string, keepLogs bool) error {
	response, err := m.cfg.Runtime.ContainerStatus(ctx, id, false)
	if err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("remove container %s: status: %w", name, err)
	}
	detail := response.GetStatus()
	if detail.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
		// A start whose answer was lost has had its effect since the decision to
		// remove it. The runtime would kill it.
		return fmt.Errorf("remove container %s: %w", name, ErrRunning)
	}
	files := func() error {
		err := m.removeTerminationFile(p.UID, detail)
		if keepLogs {
			return err
		}
		return errors.Join(m.removeLogs(p, name, id, detail.GetLogPath()), err)
	}
	container := func() error {
		if err := m.cfg.Runtime.RemoveContainer(ctx, id); err != nil && !cri.IsNotFound(err) {
			return err
		}
		return nil
	}
	steps := []func() error{files, container}
	switch {
	case detail == nil: // it was gone already
		steps = steps[:1]
	case detail.State == runtimeapi.ContainerState_CONTAINER_CREATED:
		steps = []func() error{container, files}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("remove container %s: %w", name, err)
		}
	}
	m.preStops.forget(id)
	return nil
}

// removeSandbox removes a sandbox. One that this Manager has not stopped itself is
// stopped once more, so that its network is surely gone: an agent may have died
// in the middle, or the sandbox may have ended by itself.
func (m *Manager) removeSandbox(ctx context.Context, id string) error {
	if !m.isStopped(id) {
		if err := m.stopSandbox(ctx, id); err != nil {
			return err
		}
	}
	if err := m.cfg.Runtime.RemovePodSandbox(ctx, id); err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	m.noteStopped(id, false)
	return nil
}
