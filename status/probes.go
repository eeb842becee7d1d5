package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// applyProbes sets Started and Ready. The previous status counts only for the same instance.
func (b *builder) applyProbes(x *subject, status *v1.ContainerStatus) {
	c, k, old := x.Container, x.kind, x.old
	if k == ephemeral {
		return // neither probed nor ready
	}
	if old != nil && (old.ContainerID == "" || old.ContainerID != status.ContainerID) {
		old = nil
	}
	notProbed := b.in.Probes == nil
	running := status.State.Running != nil
	started := running
	if running && k != plainInit && c.StartupProbe != nil && !notProbed {
		started = passed(b.in.Probes.Of(status.ContainerID, probe.Startup), old != nil && podstatus.IsTrue(old.Started))
	}
	x.started = started
	status.Started = &x.started
	switch {
	case k == plainInit:
		status.Ready = status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
	case !started:
		status.Ready = false
	case c.ReadinessProbe == nil || notProbed:
		status.Ready = true
	default:
		found := b.in.Probes.Of(status.ContainerID, probe.Readiness)
		status.Ready = passed(found, old != nil && old.Ready)
		if found != probe.Success {
			b.probeNow = append(b.probeNow, c.Name)
		}
	}
}

func passed(v probe.Verdict, before bool) bool {
	switch v {
	case probe.Success:
		return true
	case probe.Failure:
		return false
	default:
		return before
	}
}

// Probed returns the probe results that a status contains for its running instances, for
// probe.Manager.Restore. With it, an agent that stores only statuses can restore after a restart
// which containers had started and which were ready.
func Probed(s *v1.PodStatus) probe.Results {
	var out probe.Results
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.State.Running == nil || c.ContainerID == "" || !podstatus.IsTrue(c.Started) {
				continue // its startup probe may still pass
			}
			ready := probe.Failure
			if c.Ready {
				ready = probe.Success
			}
			out = append(out,
				probe.Stored{Container: c.Name, ContainerID: c.ContainerID, Type: probe.Startup, Result: probe.Success},
				probe.Stored{Container: c.Name, ContainerID: c.ContainerID, Type: probe.Readiness, Result: ready})
		}
	}
	return out
}
