package pods

import (
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
)

// ProbeResults picks the results of one type of probe, for SyncRequest.Liveness and
// SyncRequest.Startup. Results whose container ID does not parse are left out.
func ProbeResults(results []probe.Stored, t probe.Type) map[pleg.ContainerID]ProbeResult {
	out := map[pleg.ContainerID]ProbeResult{}
	for _, r := range results {
		id, err := pleg.ParseContainerID(r.ContainerID)
		switch {
		case err != nil || r.Type != t:
		case r.Result == probe.Success:
			out[id] = ProbeSuccess
		case r.Result == probe.Failure:
			out[id] = ProbeFailure
		}
	}
	return out
}
