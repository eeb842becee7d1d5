package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/internal/podstatus"
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
	nobody := b.in.Probes == nil
	running := status.State.Running != nil
	started := running
	if running && k != plainInit && c.StartupProbe != nil && !nobody {
		started = passed(b.in.Probes.Of(status.ContainerID, probe.Startup), old != nil && podstatus.IsTrue(old.Started))
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

// Probed is what a status tells of the probes of the instances that run, for
// probe.Manager.Restore: an agent that has kept nothing but statuses knows after a
// restart which containers had started, and which were ready.
func Probed(s *v1.PodStatus) probe.Results {
	var out probe.Results
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.State.Running == nil || c.ContainerID == "" || !podstatus.IsTrue(c.Started) {
				continue // a startup probe that has not passed yet may pass any time
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
