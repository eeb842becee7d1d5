package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
)

// Verdicts turns the stored results of a pod's probes into Input.Probes: those of
// the newest instance of each container, since what was found of one says nothing
// of its successor. The map is never nil: there is somebody who probes.
func Verdicts(results []probe.Stored, observed *pleg.PodStatus) map[string]ProbeResults {
	out := map[string]ProbeResults{}
	if observed == nil {
		return out
	}
	for _, r := range results {
		newest := observed.Newest(r.Container)
		if newest == nil || newest.ID.String() != r.ContainerID {
			continue
		}
		verdict := Failed
		if r.Result == probe.Success {
			verdict = Passed
		}
		both := out[r.Container]
		both.ContainerID = r.ContainerID
		switch r.Type {
		case probe.Startup:
			both.Startup = verdict
		case probe.Readiness:
			both.Readiness = verdict
		case probe.Liveness: // restarts containers, and says nothing in a status
		}
		out[r.Container] = both
	}
	return out
}

// Probed is what a status tells of the probes of the instances that run, for
// probe.Manager.Restore: an agent that has kept nothing but statuses knows after a
// restart which containers had started, and which were ready.
func Probed(s *v1.PodStatus) []probe.Stored {
	var out []probe.Stored
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.State.Running == nil || c.ContainerID == "" || !isTrue(c.Started) {
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

// Reasons turns reasons of another package, such as those of the failed starts of
// package cri/pods, into Input.StartFailures.
func Reasons[T ~struct{ Reason, Message string }](by map[string]T) map[string]Reason {
	out := make(map[string]Reason, len(by))
	for name, r := range by {
		out[name] = Reason(r)
	}
	return out
}
