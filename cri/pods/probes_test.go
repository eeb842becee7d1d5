package pods_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
)

func TestProbeResults(t *testing.T) {
	results := []probe.Stored{
		{Container: "web", ContainerID: "fake://a", Type: probe.Liveness, Result: probe.Failure},
		{Container: "web", ContainerID: "fake://a", Type: probe.Startup, Result: probe.Success},
		{Container: "db", ContainerID: "fake://b", Type: probe.Liveness, Result: probe.Success},
		{Container: "db", ContainerID: "fake://c", Type: probe.Liveness},
		{Container: "bad", ContainerID: "no id", Type: probe.Liveness, Result: probe.Failure},
	}
	require.Equal(t, map[pleg.ContainerID]pods.ProbeResult{
		{Runtime: "fake", ID: "a"}: pods.ProbeFailure,
		{Runtime: "fake", ID: "b"}: pods.ProbeSuccess,
	}, pods.ProbeResults(results, probe.Liveness))
	require.Equal(t, map[pleg.ContainerID]pods.ProbeResult{
		{Runtime: "fake", ID: "a"}: pods.ProbeSuccess,
	}, pods.ProbeResults(results, probe.Startup))
}
