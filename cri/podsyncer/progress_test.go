package podsyncer

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/internal/testagent"
)

// A container that takes long to start keeps nobody from seeing, and probing, what
// runs beside it.
func TestALongSyncIsShown(t *testing.T) {
	for name, cfg := range map[string]fake.Config{"with events": {}, "without": {Unimplemented: []string{"GetContainerEvents"}}} {
		t.Run(name, func(t *testing.T) {
			a := testagent.NewAnswers()
			a.Set("a ready", 1)
			cfg.Exec = a.Exec()
			inWorld(t, cfg, func(w *world) {
				var created atomic.Int32
				w.calls.Intercept(func(ctx context.Context, call string, do func() error) error {
					if call == "CreateContainer" && created.Add(1) == 2 {
						run.Sleep(ctx, time.Minute)
					}
					return do()
				})
				pod := newPod("1", v1.RestartPolicyAlways, "a", "b")
				pod.Spec.Containers[0].ReadinessProbe = asking("ready", 1)
				w.run(5*time.Second, pod)
				require.NotEmpty(t, w.agent.workers.State("1").Step, "the sync goes on")
				require.NotNil(t, w.container("1", "a").State.Running)
				require.NotNil(t, w.container("1", "b").State.Waiting)
				require.False(t, w.container("1", "a").Ready)
				a.Set("a ready", 0)
				w.sleep(1100 * time.Millisecond)
				require.True(t, w.container("1", "a").Ready)
				require.Equal(t, v1.ConditionFalse, w.condition("1", v1.PodReady))
				w.sleep(time.Minute)
				require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.running())
				require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))
			})
		})
	}
}

// A sandbox that was made after the runtime was looked at is not unmade by that look.
func TestProgressDoesNotGoBack(t *testing.T) {
	for making := 2 * time.Second; making < 4*time.Second; making += 100 * time.Millisecond {
		t.Run(fmt.Sprint("made in ", making), func(t *testing.T) {
			inWorld(t, fake.Config{Unimplemented: []string{"GetContainerEvents"}}, func(w *world) {
				takes := map[string]time.Duration{"RunPodSandbox": making, "CreateContainer": 5 * time.Second}
				w.calls.Intercept(func(ctx context.Context, call string, do func() error) error {
					run.Sleep(ctx, takes[call])
					return do()
				})
				w.set(newPod("1", v1.RestartPolicyAlways, "a"))
				w.start()
				var seen []v1.ConditionStatus
				for range 200 {
					w.sleep(50 * time.Millisecond)
					seen = append(seen, w.condition("1", v1.PodReadyToStartContainers))
				}
				require.Equal(t, []v1.ConditionStatus{v1.ConditionFalse, v1.ConditionTrue}, slices.Compact(seen[1:]))
			})
		})
	}
}
