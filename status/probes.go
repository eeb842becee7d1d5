package status

import (
	v1 "k8s.io/api/core/v1"
)

// applyProbes sets Started and Ready. What the previous status says counts for the
// same instance only.
func (b *builder) applyProbes(x *subject, status *v1.ContainerStatus) {
	c, k, old := x.Container, x.kind, x.old
	if k == ephemeral {
		return // never probed, never ready
	}
	if old != nil && (old.ContainerID == "" || old.ContainerID != status.ContainerID) {
		old = nil
	}
	results := b.in.Probes[c.Name]
	if results.ContainerID != "" && results.ContainerID != status.ContainerID {
		results = ProbeResults{}
	}
	nobody := b.in.Probes == nil
	running := status.State.Running != nil
	started := running
	if running && k != plainInit && c.StartupProbe != nil && !nobody {
		started = passed(results.Startup, old != nil && isTrue(old.Started))
	}
	x.started = started
	status.Started = &x.started
	switch {
	case k == plainInit:
		status.Ready = status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
	case !started:
		status.Ready = false
	case c.ReadinessProbe == nil || nobody:
		status.Ready = true
	default:
		status.Ready = passed(results.Readiness, old != nil && old.Ready)
		if results.Readiness != Passed {
			b.probeNow = append(b.probeNow, c.Name)
		}
	}
}

func passed(v Verdict, before bool) bool {
	switch v {
	case Passed:
		return true
	case Failed:
		return false
	default:
		return before
	}
}
