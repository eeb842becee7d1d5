package probe_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/probe"
)

func TestResultText(t *testing.T) {
	for typ := probe.Liveness; typ <= probe.Startup; typ++ {
		for result := probe.Unknown; result <= probe.Failure; result++ {
			want := probe.Stored{Container: "web", ContainerID: "fake://1", Type: typ, Result: result}
			text, err := json.Marshal(want)
			require.NoError(t, err)
			var got probe.Stored
			require.NoError(t, json.Unmarshal(text, &got))
			require.Equal(t, want, got)
		}
	}
	text, err := json.Marshal(probe.Stored{Container: "web", ContainerID: "fake://1", Type: probe.Startup, Result: probe.Failure})
	require.NoError(t, err)
	require.Equal(t, `{"container":"web","containerID":"fake://1","type":"Startup","result":"Failure"}`, string(text))
}

func TestInvalidResultText(t *testing.T) {
	var got probe.Stored
	require.ErrorContains(t, json.Unmarshal([]byte(`{"type":"Lively"}`), &got), `"Lively"`)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"result":"Maybe"}`), &got), `"Maybe"`)
	_, err := json.Marshal(probe.Type(7))
	require.ErrorContains(t, err, "Type(7)")
	_, err = json.Marshal(probe.Verdict(-1))
	require.ErrorContains(t, err, "Verdict(-1)")
}

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
	require.Equal(t, probe.Unknown, results.Of("fake://a", probe.Readiness), "the result of the previous instance is ignored")
	require.Equal(t, probe.Unknown, results.Of("fake://c", probe.Liveness))
	require.Equal(t, probe.Unknown, results.Of("", probe.Liveness), "no instance")
	require.Equal(t, probe.Unknown, probe.Results(nil).Of("fake://a", probe.Liveness))
}
