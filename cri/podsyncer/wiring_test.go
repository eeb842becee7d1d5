package podsyncer

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
)

func TestConfigNamesWhatIsWrong(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		good := w.newNode().cfg
		for field, spoil := range map[string]func(*Config){
			"Config.Checkpoint":      func(c *Config) { c.Checkpoint = nil },
			"Config.ShutdownTimeout": func(c *Config) { c.ShutdownTimeout = -1 },
			"Config.Runtime":         func(c *Config) { c.Pods.Runtime = nil },
			"Config.Probers":         func(c *Config) { c.Probes.Probers = nil },
			"RelistPeriod":           func(c *Config) { c.PLEG.RelistPeriod = -1 },
		} {
			cfg := good
			spoil(&cfg)
			_, err := New(cfg)
			require.ErrorContains(t, err, field)
		}
	})
}

func TestRunWorksOnce(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		w.start()
		w.stop()
		require.ErrorIs(t, w.agent.Run(w.t.Context()), ErrAlreadyRun)
		// Before there are workers nothing is known of any pod, and nothing is removed.
		s := must(New(w.newNode().cfg))
		require.False(t, s.gone("1"))
		require.False(t, s.releasable("1"))
	})
}

func TestNamesake(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}}
	running := func(uid types.UID, namespace, name string) pleg.ObservedPod {
		return pleg.ObservedPod{UID: uid, Namespace: namespace, Name: name, Sandboxes: []pleg.ObservedSandbox{{ID: "s", State: pleg.SandboxReady}}}
	}
	uid, found := namesake(pod, []pleg.ObservedPod{running("1", "ns", "a"), running("2", "other", "a"), running("3", "ns", "b"), {UID: "4", Namespace: "ns", Name: "a"}})
	require.False(t, found, uid)
	uid, found = namesake(pod, []pleg.ObservedPod{running("1", "ns", "a"), running("2", "ns", "a")})
	require.True(t, found)
	require.Equal(t, types.UID("2"), uid)
}

// A user's own callbacks are told, too.
func TestCallbacksOfTheUser(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		n := w.newNode()
		var moved []podworkers.State
		workers, err := n.NewWorkers(podworkers.Config{OnTransition: func(tr podworkers.Transition) { moved = append(moved, tr.To) }})
		require.NoError(t, err)
		n.workers = workers
		ctx, cancel := context.WithCancel(w.t.Context())
		done := make(chan error, 1)
		go func() { done <- n.RunWith(ctx, workers.Run) }()
		require.NoError(t, workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: newPod("1", v1.RestartPolicyAlways, "a")}))
		w.Sleep(5 * time.Second)
		require.Contains(t, moved, podworkers.StateSyncing)
		require.Len(t, w.Running(), 1)
		cancel()
		require.NoError(t, <-done)
	})
}

// Syncs of pods and collections of garbage are spans, if somebody wants them.
func TestSpans(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		var mu sync.Mutex
		open, ended := 0, map[string]int{}
		w.span = func(ctx context.Context, name string, _ ...slog.Attr) (context.Context, func(error)) {
			mu.Lock()
			defer mu.Unlock()
			open++
			return ctx, func(error) {
				mu.Lock()
				defer mu.Unlock()
				open--
				ended[name]++
			}
		}
		w.run(90*time.Second, newPod("1", v1.RestartPolicyAlways, "a"))
		w.end(10 * time.Second)
		w.stop()
		require.Zero(t, open)
		for _, name := range []string{"syncPod", "syncTerminatingPod", "Containers/GarbageCollect"} {
			require.Positive(t, ended[name], name)
		}
	})
}
