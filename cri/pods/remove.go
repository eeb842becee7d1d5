package pods

import (
	"context"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/pleg/observed"
)

var _ garbage.Pods = (*Manager)(nil)

// Files tells where the files of pods are.
func (m *Manager) Files() podfiles.Layout { return m.files }

// StopContainer stops a container of which nobody knows whether it runs, before it is
// removed: with gracefully as its annotations say that it was created with, with its
// preStop handler and grace period, else with the shortest grace period that any gets.
func (m *Manager) StopContainer(ctx context.Context, pod labels.Pod, name, id string, gracefully bool) error {
	kill := ContainerKill{
		ID: observed.ContainerID{Runtime: m.cfg.RuntimeName, ID: id}, Name: name,
		Message: "Container " + name + " is in unknown state, it is stopped before it is removed",
	}
	return m.killContainer(ctx, podKill{identity: podIdentity{Pod: pod}, restore: gracefully}, kill)
}

// RemoveContainer removes a container with its logs and its termination message
// file, but never one that runs: garbage.ErrRunning. What is gone already is no error.
func (m *Manager) RemoveContainer(ctx context.Context, pod labels.Pod, name, id string) error {
	return m.removeContainer(ctx, pod, name, id, false)
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
func (m *Manager) removeContainer(ctx context.Context, p labels.Pod, name, id string, keepLogs bool) error {
	response, err := m.cfg.Runtime.ContainerStatus(ctx, id, false)
	if err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("remove container %s: status: %w", name, err)
	}
	detail := response.GetStatus()
	if detail.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
		// A start whose answer was lost has had its effect since the decision to
		// remove it. The runtime would kill it.
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
	m.refusals.forget(id)
	return nil
}

// RemoveSandbox removes a sandbox. One that this Manager has not stopped itself is
// stopped once more, so that its network is surely gone: an agent may have died
// in the middle, or the sandbox may have ended by itself.
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

// reset restarts all containers of a pod together (KEP-5532): it takes every
// instance away in the order of the list, so that the next sync finds a pod that
// has never run in its sandbox. Logs stay, and with them the restart counts. What
// triggered it goes last: until then a crash of the agent leaves the trigger. It
// reports whether the sync continues: nothing had to be reset.
func (s *podSync) reset(ctx context.Context) bool {
	for i := range s.actions.Reset {
		c := &s.actions.Reset[i]
		if s.ended(ctx) || c.State != observed.StateExited && !s.resetStop(ctx, c) || !s.removeOne(ctx, c, true) {
			return false
		}
		s.m.clearFailure(s.identity.UID, c.Name) // its back-off ends
	}
	s.result.again = len(s.actions.Reset) > 0
	return !s.result.again
}

// resetStop stops an instance without grace. It tells whether it has stopped.
func (s *podSync) resetStop(ctx context.Context, c *observed.Container) bool {
	s.step("stopping container " + c.Name)
	none := int64(0)
	kill := podKill{identity: s.identity, pod: s.req.Pod, status: s.req.Status, override: &none}
	errs := s.m.killContainers(ctx, kill, []ContainerKill{{
		ID: c.ID, Name: c.Name, Message: "Restarting all containers of the pod",
	}}, &s.result)
	return errs[0] == nil
}
