package status

import (
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
