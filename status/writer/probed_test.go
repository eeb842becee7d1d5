package writer_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/writer"
)

func TestSetProbed(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web"}}}}
	pod.UID, pod.Name, pod.Namespace = "u1", "web", "ns"
	m, err := writer.New(writer.Config{})
	require.NoError(t, err)
	m.Set(pod, v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
		Name: "web", ContainerID: "fake://1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}})
	probed := func(typ probe.Type, result probe.Verdict) v1.ContainerStatus {
		m.SetProbed(probe.Change{UID: "u1", Stored: probe.Stored{Container: "web", ContainerID: "fake://1", Type: typ, Result: result}})
		return m.Get("u1").ContainerStatuses[0]
	}
	require.True(t, *probed(probe.Startup, probe.Success).Started)
	require.True(t, probed(probe.Readiness, probe.Success).Ready)
	require.True(t, probed(probe.Liveness, probe.Failure).Ready)
	require.False(t, probed(probe.Readiness, probe.Failure).Ready)
}
