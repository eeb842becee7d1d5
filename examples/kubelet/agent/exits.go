package agent

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/server"
)

// exitReport returns the newest exit of a container with its cause, or nil. k is the newest stop of
// the container by this agent.
func exitReport(c v1.ContainerStatus, k kill) *server.ExitReport {
	t := c.State.Terminated
	if t == nil {
		t = c.LastTerminationState.Terminated
	}
	if t == nil {
		return nil
	}
	return &server.ExitReport{Code: t.ExitCode, Reason: t.Reason, Message: t.Message, At: moment(t.FinishedAt), Cause: cause(t, k)}
}

func moment(t metav1.Time) *time.Time {
	if t.IsZero() || t.Unix() <= 0 {
		return nil
	}
	return &t.Time
}

// cause returns the cause of an exit, or "" if it is unknown. A stop counts if it began during this
// run of the container. Statuses have whole seconds.
func cause(t *v1.ContainerStateTerminated, k kill) string {
	switch {
	case k.message != "" && !k.at.Before(t.StartedAt.Truncate(time.Second)) && k.at.Before(t.FinishedAt.Add(time.Second)):
		return killCause(k.message)
	case t.Reason == "ContainerStatusUnknown": // the code is a placeholder
		return "unknown: the kubelet did not observe the exit"
	case t.Reason == "OOMKilled":
		return "killed: out of memory"
	case t.Reason == "Completed" && t.ExitCode == 0:
		return "ended by itself"
	}
	return ""
}

// killCauses maps parts of the messages of Killing events to causes.
var killCauses = []struct{ part, cause string }{
	{" failed liveness probe", "killed: liveness probe failed"},
	{" failed startup probe", "killed: startup probe failed"},
	{" definition changed", "stopped: its definition changed"},
	{"FailedPostStartHook", "killed: postStart hook failed"},
	{" resize requires restart", "stopped: its resize requires a restart"},
	{" has lost its sandbox", "stopped: the pod lost its network"},
	{" is left over from an earlier sandbox", "stopped: the pod lost its network"},
	{" is not in the pod's spec", "stopped: the pod no longer has this container"},
	{"Stopping container ", "stopped with its pod"},
}

// killCause returns the cause for the message of a Killing event. An unknown message is the cause
// itself.
func killCause(message string) string {
	for _, c := range killCauses {
		if strings.Contains(message, c.part) {
			return c.cause
		}
	}
	return "stopped: " + message
}
