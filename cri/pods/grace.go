package pods

import (
	v1 "k8s.io/api/core/v1"
)

// What this file does is pure: it decides how long containers may take to end.

const (
	// minGraceSeconds is what every container gets at least, so that a signal
	// can be handled at all.
	minGraceSeconds = 2
	// orphanGraceSeconds is what a container without a spec gets.
	orphanGraceSeconds = 1
	// maxGraceSeconds, 68 years, keeps a grace period from overflowing a
	// time.Duration, whatever else is added to it.
	maxGraceSeconds = 1<<31 - 1
)

// graceSeconds is how long a container may take to end by itself, preStop
// included, and never negative. pod is nil for one that only the runtime knows;
// container, too, if the spec does not have it.
func graceSeconds(pod *v1.Pod, container *v1.Container, reason KillReason, override *int64) int64 {
	return min(max(wantedGrace(pod, container, reason, override), 0), maxGraceSeconds)
}

func wantedGrace(pod *v1.Pod, container *v1.Container, reason KillReason, override *int64) int64 {
	switch {
	case override != nil:
		return *override
	case pod == nil:
		return orphanGraceSeconds
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

// probeGrace is the grace period of the probe that asked for the kill (KEP-2238).
func probeGrace(container *v1.Container, reason KillReason) *int64 {
	switch {
	case container == nil:
	case reason == KillLivenessProbe && container.LivenessProbe != nil:
		return container.LivenessProbe.TerminationGracePeriodSeconds
	case reason == KillStartupProbe && container.StartupProbe != nil:
		return container.StartupProbe.TerminationGracePeriodSeconds
	}
	return nil
}
