package probe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/probe"
)

func TestResults(t *testing.T) {
	results := probe.Results{
		{Container: "web", ContainerID: "fake://old", Type: probe.Readiness, Result: probe.Success},
		{Container: "web", ContainerID: "fake://a", Type: probe.Liveness, Result: probe.Failure},
		{Container: "web", ContainerID: "fake://a", Type: probe.Startup, Result: probe.Success},
		{Container: "db", ContainerID: "fake://c", Type: probe.Liveness},
		{Container: "bad", Type: probe.Liveness, Result: probe.Failure},
	}
	require.Equal(t, probe.Failure, results.Of("fake://a", probe.Liveness))
	require.Equal(t, probe.Success, results.Of("fake://a", probe.Startup))
	require.Equal(t, probe.Unknown, results.Of("fake://a", probe.Readiness), "that of the one before says nothing")
	require.Equal(t, probe.Unknown, results.Of("fake://c", probe.Liveness))
	require.Equal(t, probe.Unknown, results.Of("", probe.Liveness), "no instance")
	require.Equal(t, probe.Unknown, probe.Results(nil).Of("fake://a", probe.Liveness))
}
