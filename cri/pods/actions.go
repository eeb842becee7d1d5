package pods

import "github.com/podwright/podwright/cri/pods/actions"

// What a pod's probes say, and why a container is stopped, is decided upon in
// package actions.
type (
	// ProbeResult is what a liveness or startup probe says of a container. The
	// zero value is ProbeUnknown: it never restarts anything.
	ProbeResult = actions.ProbeResult
	// KillReason says why a container is stopped. Probe-level grace periods
	// depend on it.
	KillReason = actions.KillReason
	// ContainerKill is a container to stop.
	ContainerKill = actions.ContainerKill
)

// The results of a probe.
const (
	ProbeUnknown = actions.ProbeUnknown
	ProbeSuccess = actions.ProbeSuccess
	ProbeFailure = actions.ProbeFailure
)

// The reasons to stop a container. The zero value is any other reason.
const (
	KillLivenessProbe = actions.KillLivenessProbe
	KillStartupProbe  = actions.KillStartupProbe
)
