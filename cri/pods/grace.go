package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/actions"
)

// The functions of this file are pure.

const (
	// minGraceSeconds is the shortest grace period, so that a process can handle the signal, and the
	// grace period of a container without a spec.
	minGraceSeconds = 2
	// maxGraceSeconds is 68 years. It prevents overflow of a time.Duration.
	maxGraceSeconds = 1<<31 - 1
)

// graceSeconds returns a container's grace period in seconds, preStop included. It is never
// negative. pod is nil for an orphan; container is nil if the spec does not have it.
func graceSeconds(pod *v1.Pod, container *v1.Container, reason actions.KillReason, override *int64) int64 {
	return min(max(wantedGrace(pod, container, reason, override), 0), maxGraceSeconds)
}

func wantedGrace(pod *v1.Pod, container *v1.Container, reason actions.KillReason, override *int64) int64 {
	switch {
	case override != nil:
		return *override
	case pod == nil:
		return minGraceSeconds
	case pod.DeletionGracePeriodSeconds != nil:
		return *pod.DeletionGracePeriodSeconds
	}
	if s := probeGrace(container, reason); s != nil {
		return *s
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return *s
	}
	return minGraceSeconds
}

// probeGrace returns the grace period of the probe that caused the kill, or nil (KEP-2238).
func probeGrace(container *v1.Container, reason actions.KillReason) *int64 {
	switch {
	case container == nil:
	case reason == actions.KillLivenessProbe && container.LivenessProbe != nil:
		return container.LivenessProbe.TerminationGracePeriodSeconds
	case reason == actions.KillStartupProbe && container.StartupProbe != nil:
		return container.StartupProbe.TerminationGracePeriodSeconds
	}
	return nil
}
