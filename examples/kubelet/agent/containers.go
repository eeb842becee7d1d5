package agent

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/internal/podfacts"
)

// initKind distinguishes sidecars from other init containers. The pod is nil if only the runtime
// lists it.
func initKind(pod *v1.Pod, name string) string {
	if c := podfacts.Container(pod, name); c != nil && podfacts.IsSidecar(c) {
		return "sidecar"
	}
	return "init"
}

// containerReport describes a container. The pod is nil if only the runtime lists it. k is the newest
// stop of the container.
func containerReport(kind string, pod *v1.Pod, c v1.ContainerStatus, k kill) server.ContainerReport {
	r := server.ContainerReport{Name: c.Name, Kind: kind, Restarts: c.RestartCount, Image: c.Image, LastExit: exitReport(c, k)}
	if spec := podfacts.Container(pod, c.Name); spec != nil {
		r.Image = spec.Image
	}
	switch {
	case c.State.Running != nil:
		r.State, r.Started = "running", moment(c.State.Running.StartedAt)
	case c.State.Terminated != nil:
		r.State, r.Reason, r.Message = "terminated", c.State.Terminated.Reason, ended(c.State.Terminated)
	case c.State.Waiting != nil:
		r.State, r.Reason, r.Message = "waiting", c.State.Waiting.Reason, c.State.Waiting.Message
	default:
		r.State = "waiting"
	}
	if t := c.LastTerminationState.Terminated; t != nil {
		r.LastEnd = ended(t)
	}
	return r
}

// ended returns the exit code of a container, with the runtime's reason and message.
func ended(t *v1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Reason != "" {
		text += " (" + t.Reason + ")"
	}
	if message := strings.TrimSpace(t.Message); message != "" {
		text += ": " + message
	}
	return text
}
