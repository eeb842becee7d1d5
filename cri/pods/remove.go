package pods

import (
	"context"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/pleg/observed"
)

var _ garbage.Pods = (*Manager)(nil)

// Files returns the layout of pods' files.
func (m *Manager) Files() podfiles.Layout { return m.files }

// StopContainer stops a container in unknown state before its removal. With gracefully, its
// annotations supply the preStop handler and grace period; otherwise it gets the shortest grace
// period.
func (m *Manager) StopContainer(ctx context.Context, pod labels.Pod, name, id string, gracefully bool) error {
	kill := actions.ContainerKill{
		ID: observed.ContainerID{Runtime: m.cfg.RuntimeName, ID: id}, Name: name,
		Message: "Container " + name + " is in unknown state, it is stopped before it is removed",
	}
	return m.killContainer(ctx, podKill{identity: podIdentity{Pod: pod}, restore: gracefully}, kill)
}

// RemoveContainer removes a container with its logs and termination message file. It returns
// garbage.ErrRunning for a running container. Removing a container that does not exist succeeds.
func (m *Manager) RemoveContainer(ctx context.Context, pod labels.Pod, name, id string) error {
	return m.removeContainer(ctx, pod, name, id, false)
}

// removeContainer removes a container with its logs and termination message file. It returns
// garbage.ErrRunning for a running container.
//
// Files are removed first: if that fails, the container stays and the removal is repeated. A
// container that was only created is removed before its files: an agent that died may have been
// starting it, and that start may still complete. The runtime then refuses the removal, and the
// log belongs to a running container. If the removal succeeds, the next instance uses the same
// log.
//
// With keepLogs the logs and their link stay, because the restart counts of a reset container
// come from its logs (KEP-5532).
func (m *Manager) removeContainer(ctx context.Context, p labels.Pod, name, id string, keepLogs bool) error {
	response, err := m.cfg.Runtime.ContainerStatus(ctx, id, false)
	if err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("remove container %s: status: %w", name, err)
	}
	detail := response.GetStatus()
	if detail.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
		// A start whose response was lost took effect after the decision to remove the container.
		// The runtime would kill the container.
		return fmt.Errorf("remove container %s: %w", name, garbage.ErrRunning)
	}
	files := func() error {
		err := m.files.RemoveTerminationFile(p.UID, detail)
		if keepLogs {
			return err
		}
		return errors.Join(m.files.RemoveLogs(p, name, id, detail.GetLogPath()), err)
	}
	container := func() error {
		if err := m.cfg.Runtime.RemoveContainer(ctx, id); err != nil && !cri.IsNotFound(err) {
			return m.refused(p, name, id, err)
		}
		return nil
	}
	steps := []func() error{files, container}
	switch {
	case detail == nil: // it no longer exists
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
	m.refusals.forget(id)
	return nil
}

// RemoveSandbox removes a sandbox. If this Manager has not stopped it successfully, RemoveSandbox
// stops it first, so that its network is released: an earlier agent may have died during the
// stop, or the sandbox may have exited.
func (m *Manager) RemoveSandbox(ctx context.Context, id string) error {
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

// reset restarts all containers of a pod (KEP-5532). It removes all instances in the order of
// actions.Reset, so that the next sync finds a pod that has not run in its sandbox. The logs, and
// with them the restart counts, stay. The exit that triggers the restart is removed last, so that
// it survives a crash of the agent. reset returns true, and the sync continues, if there was no
// instance to remove.
func (s *podSync) reset(ctx context.Context) bool {
	for i := range s.actions.Reset {
		c := &s.actions.Reset[i]
		if s.ended(ctx) || c.State != observed.StateExited && !s.resetStop(ctx, c) || !s.removeOne(ctx, c, true) {
			return false
		}
		s.m.clearFailure(s.identity.UID, c.Name) // this ends its back-off
	}
	s.result.again = len(s.actions.Reset) > 0
	return !s.result.again
}

// resetStop stops an instance without preStop and with the shortest grace period. It reports
// whether the instance has stopped.
func (s *podSync) resetStop(ctx context.Context, c *observed.Container) bool {
	s.step("stopping container " + c.Name)
	none := int64(0)
	kill := podKill{identity: s.identity, pod: s.req.Pod, status: s.req.Status, override: &none}
	errs := s.m.killContainers(ctx, kill, []actions.ContainerKill{{
		ID: c.ID, Name: c.Name, Message: "Restarting all containers of the pod",
	}}, &s.result)
	return errs[0] == nil
}
