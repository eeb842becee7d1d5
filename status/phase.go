package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// decidePhase sets phase, reason and message. A reported end stays: first the API server's, then
// the previous status's.
func (b *builder) decidePhase(s *v1.PodStatus) {
	s.Phase = count(b.in.Pod, s).phase(b.in.Terminal && !podfacts.IsStatic(b.in.Pod), b.hasActive())
	if !b.observed() && b.old.Phase != "" {
		s.Phase = b.old.Phase
	}
	s.Reason, s.Message = "", ""
	switch {
	case podfacts.IsTerminalPhase(b.api.Phase):
		s.Phase = b.api.Phase
	case podfacts.IsTerminalPhase(b.old.Phase) && !b.overridden:
		s.Phase = b.old.Phase
	case b.in.Fail != nil:
		s.Phase, s.Reason, s.Message = v1.PodFailed, b.in.Fail.Reason, b.in.Fail.Message
	}
	keepReason(s, b.old)
	keepReason(s, b.api)
}

// keepReason fills an empty reason and message from a status of the same phase.
func keepReason(s, from *v1.PodStatus) {
	if s.Phase != from.Phase {
		return
	}
	if s.Reason == "" {
		s.Reason = from.Reason
	}
	if s.Message == "" {
		s.Message = from.Message
	}
}

func (b *builder) hasActive() bool {
	if !b.observed() || len(b.in.Observed.Sandboxes) == 0 {
		return false
	}
	current := &b.in.Observed.Sandboxes[0]
	if current.State != observed.SandboxReady {
		return false
	}
	for i := range b.in.Observed.Containers {
		if c := &b.in.Observed.Containers[i]; c.SandboxID == current.ID && podfacts.Regular(b.in.Pod, c.Name) != nil {
			return true
		}
	}
	return false
}

// tally counts the containers of a pod by their effect on its phase.
type tally struct {
	pendingInit    int // plain init containers that have not succeeded yet
	pendingSidecar int // sidecars that have not started yet
	failedForGood  int // init containers that failed and may not run again

	unknown   int
	running   int
	waiting   int // never ran
	stopped   int
	succeeded int // of stopped: exited with code 0
	final     int // of stopped: may not run again
}

func count(pod *v1.Pod, s *v1.PodStatus) tally {
	var t tally
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		status := podstatus.Find(s.InitContainerStatuses, c.Name)
		if podfacts.IsSidecar(c) {
			t.addSidecar(status)
		} else {
			t.addInit(pod, c, status)
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		t.addRegular(pod, c, podstatus.Find(s.ContainerStatuses, c.Name))
	}
	return t
}

// phase returns the phase of a pod. terminal is true if every container has stopped for good,
// hasActive if a regular container exists in the current sandbox.
func (t tally) phase(terminal, hasActive bool) v1.PodPhase {
	switch {
	case t.failedForGood > 0:
		return v1.PodFailed
	case t.pendingInit > 0, t.pendingSidecar > 0 && !hasActive, t.waiting > 0:
		return v1.PodPending
	case t.unknown > 0:
		return v1.PodPending
	case t.running > 0:
		return v1.PodRunning
	case t.stopped == 0:
		return v1.PodPending
	case !terminal && t.stopped != t.final:
		return v1.PodRunning
	case t.succeeded == t.stopped:
		return v1.PodSucceeded
	default:
		return v1.PodFailed
	}
}

func (t *tally) addInit(pod *v1.Pod, c *v1.Container, status *v1.ContainerStatus) {
	ended := podstatus.Termination(status)
	switch {
	case ended == nil:
		t.pendingInit++
	case ended.ExitCode != 0 && !podstatus.MayRestart(pod, c, ended):
		t.failedForGood++
	}
}

func (t *tally) addSidecar(status *v1.ContainerStatus) {
	switch {
	case status == nil:
		t.unknown++
	case status.State.Running != nil:
		t.running++
		if !podstatus.IsTrue(status.Started) {
			t.pendingSidecar++
		}
	case podstatus.Termination(status) != nil:
	case status.State.Waiting != nil:
		t.pendingSidecar++
		t.waiting++
	default:
		t.pendingSidecar++
		t.unknown++
	}
}

func (t *tally) addRegular(pod *v1.Pod, c *v1.Container, status *v1.ContainerStatus) {
	ended := podstatus.Termination(status)
	switch {
	case status == nil:
		t.unknown++
	case status.State.Running != nil:
		t.running++
	case ended != nil:
		t.stopped++
		if status.State.Terminated != nil && ended.ExitCode == 0 {
			t.succeeded++
		}
		if !podstatus.MayRestart(pod, c, ended) {
			t.final++
		}
	case status.State.Waiting != nil:
		t.waiting++
	default:
		t.unknown++
	}
}
