package status_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
)

func TestVerdicts(t *testing.T) {
	id := func(id string) pleg.ContainerID { return pleg.ContainerID{Runtime: "fake", ID: id} }
	observed := &pleg.PodStatus{Containers: []pleg.ContainerStatus{
		{Name: "web", ID: id("new")}, {Name: "web", ID: id("old")}, {Name: "db", ID: id("db")},
	}}
	stored := func(container, id string, typ probe.Type, result probe.Verdict) probe.Stored {
		return probe.Stored{Container: container, ContainerID: "fake://" + id, Type: typ, Result: result}
	}
	got := status.Verdicts([]probe.Stored{
		stored("web", "old", probe.Readiness, probe.Success),
		stored("web", "new", probe.Startup, probe.Success),
		stored("web", "new", probe.Readiness, probe.Failure),
		stored("db", "db", probe.Liveness, probe.Failure),
		stored("gone", "gone", probe.Readiness, probe.Success),
	}, observed)
	require.Equal(t, map[string]status.ProbeResults{
		"web": {ContainerID: "fake://new", Startup: status.Passed, Readiness: status.Failed},
		"db":  {ContainerID: "fake://db"},
	}, got)
	require.NotNil(t, status.Verdicts(nil, nil), "nobody has probed yet, but somebody will")
}
