package podsyncer

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/labels"
)

// A manifest changes while no agent runs, or while one dies in the middle of the
// change: the new pod starts when the old one has ended, as if nobody had died.
func TestOrphanOfTheNameEndsFirst(t *testing.T) {
	ignoring := fake.Always(func(ctx context.Context, _ *fake.Process) int {
		<-ctx.Done()
		return 137
	})
	inWorld(t, fake.Config{Programs: ignoring}, func(w *world) {
		before, after := newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "a")
		after.Name = before.Name
		w.run(5*time.Second, before)
		w.crash()
		w.set(after)
		w.start()
		for range 100 {
			w.sleep(100 * time.Millisecond)
			require.LessOrEqual(w.t, len(w.running()["a"]), 1)
		}
		require.Equal(w.t, map[string][]uint32{"a": {0}}, w.running())
		for _, c := range w.containers() {
			require.Equal(w.t, "2", c.Labels[labels.PodUID])
		}
		dirs, err := os.ReadDir(w.logs())
		require.NoError(w.t, err)
		require.Len(w.t, dirs, 1)
	})
}

// A pod that waits for one that does not end says so, and gives up waiting when
// its manifest goes.
func TestWaitForNamesakeEnds(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		before, after := newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "a")
		after.Name = before.Name
		w.run(5*time.Second, before)
		w.crash()
		w.calls.Intercept(func(ctx context.Context, call string, do func() error) error {
			if call == "StopContainer" || call == "StopPodSandbox" {
				return context.DeadlineExceeded
			}
			return do()
		})
		w.run(30*time.Second, after)
		require.Contains(w.t, w.agent.workers.State("2").Step, "earlier pods of the name: 1")
		require.Len(w.t, w.running()["a"], 1)
		w.set()
		w.sleep(10 * time.Second)
		require.Empty(w.t, w.agent.workers.State("2").Name)
		w.calls.Intercept(nil)
		w.sleep(2 * time.Minute)
		w.requireNothingLeft()
		for _, c := range w.containers() {
			require.Equal(w.t, runtimeapi.ContainerState_CONTAINER_EXITED, c.State)
		}
	})
}
