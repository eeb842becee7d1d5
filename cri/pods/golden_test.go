package pods_test

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/internal/testkit/golden"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

const goldenDir = "testdata/golden"

// Every request for every golden pod equals the upstream kubelet's in each field, except for
// those in deliberate. examples/tools/golden records them.
func TestGolden(t *testing.T) {
	used, all := make([]bool, len(deliberate)), true
	for _, set := range []string{"", golden.Cgroup2, golden.Options, golden.Cluster} {
		n, names := goldenSet(t, set)
		for _, name := range names {
			compared := false
			t.Run(path.Join(set, name), func(t *testing.T) {
				compared = true
				n.compare(t, name, used)
			})
			all = all && compared
		}
	}
	for i, d := range deliberate {
		require.NotEmpty(t, d.reason)
		if all && !used[i] { // meaningful only if all sets ran
			t.Errorf("the difference %q of pods %q no longer exists", d.field, d.pods)
		}
	}
}

// goldenSet returns the node of a set of records, and the records' names.
func goldenSet(t *testing.T, set string) (*goldenNode, []string) {
	n := &goldenNode{set: set}
	var err error
	n.env, err = golden.ReadEnvironment(goldenDir)
	require.NoError(t, err)
	n.recorded, err = golden.ReadRecorded(filepath.Join(goldenDir, set))
	require.NoError(t, err)
	n.readObjects(t)
	paths, err := filepath.Glob(filepath.Join(goldenDir, set, "*.json"))
	require.NoError(t, err)
	var names []string
	for _, p := range paths {
		if base := filepath.Base(p); base != "environment.json" && base != "recorded.json" {
			names = append(names, strings.TrimSuffix(base, ".json"))
		}
	}
	require.Greater(t, len(names), 10)
	return n, names
}

// TestGoldenComplete checks that each manifest has a record.
func TestGoldenComplete(t *testing.T) {
	for set, least := range map[string]int{"": 60, golden.Cluster: 10} {
		n, names := goldenSet(t, set)
		manifests, err := filepath.Glob(filepath.Join(goldenDir, set, "pods", "*.yaml"))
		require.NoError(t, err)
		require.Greater(t, len(manifests), least)
		for _, manifest := range manifests {
			name := strings.TrimSuffix(filepath.Base(manifest), ".yaml")
			if _, refused := n.recorded.Refused[name]; !refused && !slices.Contains(names, name) {
				t.Errorf("%s has no record: see examples/tools/golden", manifest)
			}
		}
	}
}

// compare runs a pod here and compares the requests. It marks the deliberate differences that
// occur.
func (n *goldenNode) compare(t *testing.T, name string, used []bool) {
	want, err := golden.ReadRecord(filepath.Join(goldenDir, n.set), name)
	require.NoError(t, err)
	for _, d := range differences(plain(t, want), plain(t, n.replay(t, want))) {
		if i := indexDeliberate(path.Join(n.set, name), d.field); i >= 0 {
			used[i] = true
			continue
		}
		t.Errorf("%s: upstream %s, here %s", d.field, d.want, d.got)
	}
}

// plain converts a record to maps, lists and strings. Containers are keyed by name and attempt;
// the order of their creation is a separate list.
func plain(t *testing.T, r golden.Record) map[string]any {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, json.Unmarshal(text, &all))
	delete(all, "pod")
	containers, order := map[string]any{}, []any{}
	list, _ := all["containers"].([]any)
	for _, c := range list {
		metadata := c.(map[string]any)["config"].(map[string]any)["metadata"].(map[string]any)
		attempt, ok := metadata["attempt"]
		if !ok {
			attempt = 0
		}
		key := fmt.Sprintf("%v#%v", metadata["name"], attempt)
		order = append(order, key)
		containers[key] = c
	}
	all["containers"], all["order"] = containers, order
	return all
}

// replay runs a recorded pod with a Manager and returns the requests.
func (n *goldenNode) replay(t *testing.T, want golden.Record) golden.Record {
	n.furnish(t)
	var pod v1.Pod
	require.NoError(t, json.Unmarshal(want.Pod, &pod))
	var requests golden.Requests
	synctest.Test(t, func(t *testing.T) {
		rt, err := golden.NewRuntime(n.env)
		require.NoError(t, err)
		defer rt.Close()
		manager := n.manager(t, rt)
		for range len(want.Containers) + 4 {
			status, err := observer(t, rt).PodStatus(t.Context(), pod.UID)
			require.NoError(t, err)
			result := manager.SyncPod(t.Context(), pods.SyncRequest{Pod: &pod, Status: status, Probes: allStarted(status)})
			require.NoError(t, result.Err())
			if !result.Acted() {
				break
			}
			time.Sleep(time.Second) // in the bubble: short programs have exited
		}
		requests, _ = rt.Requests(string(pod.UID))
	})
	require.NotEmpty(t, requests.Sandboxes)
	return n.record(t, requests)
}

func observer(t *testing.T, rt observe.Runtime) *observe.Observer {
	o, err := observe.New(observe.Config{Runtime: rt, RuntimeName: "fake", Owner: cri.Owner{Unlabelled: true}})
	require.NoError(t, err)
	return o
}

// allStarted returns successful startup probes.
func allStarted(status *observed.Pod) (out probe.Results) {
	for _, c := range status.Running() {
		out = append(out, probe.Stored{Container: c.Name, ContainerID: c.ID.String(), Type: probe.Startup, Result: probe.Success})
	}
	return out
}
