package pods

import "github.com/podwright/podwright/cri/pods/actions"

// Why a container is stopped is decided upon in package actions.
type (
	// KillReason says why a container is stopped. Probe-level grace periods
	// depend on it.
	KillReason = actions.KillReason
	// ContainerKill is a container to stop.
	ContainerKill = actions.ContainerKill
)

// The reasons to stop a container. The zero value is any other reason.
const (
	KillLivenessProbe = actions.KillLivenessProbe
	KillStartupProbe  = actions.KillStartupProbe
)
