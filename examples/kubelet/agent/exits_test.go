package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/testkit/testagent"
)

// A stop is the cause of an exit only if it began during that run of the container.
func TestCauseOfAnExit(t *testing.T) {
	begin := time.Unix(1000, 0)
	exit := func(code int32, reason string) *v1.ContainerStateTerminated {
		return &v1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: metav1.NewTime(begin), FinishedAt: metav1.NewTime(begin.Add(time.Minute))}
	}
	liveness := kill{message: "Container c failed liveness probe, will be restarted", at: begin.Add(50 * time.Second)}
	at := func(k kill, d time.Duration) kill { k.at = begin.Add(d); return k }
	for name, c := range map[string]struct {
		exit *v1.ContainerStateTerminated
		kill kill
		want string
	}{
		"liveness":                 {exit(137, "Error"), liveness, "killed: liveness probe failed"},
		"postStart":                {exit(137, "Error"), kill{"FailedPostStartHook", liveness.at}, "killed: postStart hook failed"},
		"startup":                  {exit(137, "Error"), kill{"Init container c failed startup probe", liveness.at}, "killed: startup probe failed"},
		"changed":                  {exit(0, "Completed"), kill{"Container c definition changed, will be restarted", liveness.at}, "stopped: its definition changed"},
		"with its pod":             {exit(143, "Error"), kill{"Stopping container c", liveness.at}, "stopped with its pod"},
		"unknown message":          {exit(1, "Error"), kill{"new text", liveness.at}, "stopped: new text"},
		"stop of the run before":   {exit(1, "Error"), at(liveness, -2*time.Second), ""},
		"stop of the run after":    {exit(1, "Error"), at(liveness, 62*time.Second), ""},
		"in the second of the end": {exit(137, "Error"), at(liveness, time.Minute+900*time.Millisecond), "killed: liveness probe failed"},
		"out of memory":            {exit(137, "OOMKilled"), kill{}, "killed: out of memory"},
		"unseen":                   {exit(137, "ContainerStatusUnknown"), kill{}, "unknown: the kubelet did not observe the exit"},
		"success":                  {exit(0, "Completed"), kill{}, "ended by itself"},
		"unknown":                  {exit(137, "Error"), kill{}, ""},
	} {
		require.Equal(t, c.want, cause(c.exit, c.kill), name)
	}
	require.Nil(t, exitReport(v1.ContainerStatus{}, liveness))
	require.Nil(t, exitReport(v1.ContainerStatus{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}, kill{}).At)
}

// A container that failed its liveness probe shows that as the cause of its last exit.
func TestLivenessIsTheCause(t *testing.T) {
	probed(t, nil, func(w *world, a *testagent.Answers) {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		pod.Spec.Containers[0].LivenessProbe = asking("alive", 3)
		w.set(pod)
		w.startFor(10 * time.Second)
		a.Set("a alive", 1)
		w.Sleep(10 * time.Second)
		a.Set("a alive", 0)
		w.Sleep(time.Minute)
		c := w.report("pod-1").Containers[0]
		require.Positive(t, c.Restarts)
		require.Equal(t, "killed: liveness probe failed", c.LastExit.Cause)
		require.NotNil(t, c.LastExit.At)
		require.Equal(t, pod.Spec.Containers[0].Image, c.Image)
	})
}
