package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
)

// static returns a static pod named s, whose manifest has this version.
func static(uid types.UID, container string) *v1.Pod {
	pod := podOf(uid, v1.RestartPolicyAlways, container)
	pod.Name, pod.Spec.NodeName = "s", "n"
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": string(uid)}
	return pod
}

// Changes of manifests take effect while the API server was never reached, also changes from before
// the start of the agent. Pods of the API server stay. Once it is reached, mirror pods follow, and
// the rest of the removed pods is released.
func TestManifestsChangeBeforeTheAPIServerIsReached(t *testing.T) {
	edited, deleted := []*v1.Pod{static("2", "new")}, []*v1.Pod(nil)
	for name, c := range map[string]struct {
		// restarted makes the change while no agent runs.
		restarted bool
		// changes are sets of manifests in order of their use.
		changes [][]*v1.Pod
		mirror  string
		// restarts is the restart count of the last manifest: a pod that was stopped as an orphan and
		// returns before its removal continues.
		restarts uint32
	}{
		"edited":                   {changes: [][]*v1.Pod{edited}, mirror: "2"},
		"deleted":                  {changes: [][]*v1.Pod{deleted}},
		"edited, deleted":          {changes: [][]*v1.Pod{edited, deleted}},
		"edited and back":          {changes: [][]*v1.Pod{edited, {static("1", "old")}}, mirror: "1"},
		"deleted and back":         {changes: [][]*v1.Pod{deleted, {static("1", "old")}}, mirror: "1"},
		"edited during a restart":  {restarted: true, changes: [][]*v1.Pod{edited}, mirror: "2"},
		"deleted during a restart": {restarted: true, changes: [][]*v1.Pod{deleted}},
		"back after a restart":     {restarted: true, changes: [][]*v1.Pod{deleted, {static("1", "old")}}, mirror: "1", restarts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inClusterOf(t, fake.Config{}, func(w *world) {
				w.put(bound("api", "api"))
				w.set(static("1", "old"))
				w.startFor(5 * time.Second)
				require.Equal(t, "1", w.at("s").Annotations["kubernetes.io/config.mirror"])
				w.api.SetDown(true)
				w.api.CloseWatches()
				w.stop()
				if c.restarted {
					w.desired = c.changes[0]
				}
				w.startFor(10 * time.Second)
				for _, change := range c.changes {
					w.set(change...)
					w.Sleep(10 * time.Second)
					want := map[string][]uint32{"api": {0}}
					for _, pod := range change {
						want[pod.Spec.Containers[0].Name] = []uint32{c.restarts}
					}
					require.Equal(t, want, w.Running())
				}
				require.False(t, w.agent.in.sources.merger.Ready(), "the API server was not reached")

				w.api.SetDown(false)
				w.Sleep(2 * time.Minute)
				if mirror := w.at("s"); c.mirror == "" {
					require.Nil(t, mirror)
				} else {
					require.Equal(t, c.mirror, mirror.Annotations["kubernetes.io/config.mirror"])
					require.Equal(t, v1.PodRunning, mirror.Status.Phase)
				}
				require.Contains(t, w.Running(), "api")
				w.set()
				w.remove("api")
				w.Sleep(2 * time.Minute)
				w.requireNothingLeft()
			})
		})
	}
}
