package status_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
)

func TestProbed(t *testing.T) {
	yes, no := true, false
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	got := status.Probed(&v1.PodStatus{
		InitContainerStatuses: []v1.ContainerStatus{
			{Name: "sidecar", ContainerID: "fake://1", State: running, Started: &yes, Ready: true},
			{Name: "init", ContainerID: "fake://2", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}, Started: &no, Ready: true},
		},
		ContainerStatuses: []v1.ContainerStatus{
			{Name: "web", ContainerID: "fake://3", State: running, Started: &yes},
			{Name: "starting", ContainerID: "fake://4", State: running, Started: &no},
			{Name: "nameless", State: running, Started: &yes},
			{Name: "ended", ContainerID: "fake://5", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}, Started: &yes},
			{Name: "waiting", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}, Started: &yes},
		},
	})
	require.Equal(t, probe.Results{
		{Container: "sidecar", ContainerID: "fake://1", Type: probe.Startup, Result: probe.Success},
		{Container: "sidecar", ContainerID: "fake://1", Type: probe.Readiness, Result: probe.Success},
		{Container: "web", ContainerID: "fake://3", Type: probe.Startup, Result: probe.Success},
		{Container: "web", ContainerID: "fake://3", Type: probe.Readiness, Result: probe.Failure},
	}, got)
}
