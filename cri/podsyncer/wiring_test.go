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
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/syncloop"
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
	})
}

// Before there are workers nothing is known of any pod, and nothing is removed.
func TestBeforeThereAreWorkers(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		s := must(New(w.newNode().cfg))
		require.False(t, s.gone("1"))
		require.False(t, s.releasable("1"))
	})
}

func TestKindsOfEvents(t *testing.T) {
	for event, want := range map[pleg.EventType]syncloop.Kind{
		pleg.Started: syncloop.PodDirty, pleg.Died: syncloop.ContainerDied, pleg.Removed: syncloop.ContainerRemoved, pleg.PodSync: syncloop.PodDirty,
	} {
		require.Equal(t, syncloop.Event{Kind: want, UID: "1"}, observedEvent(pleg.Event{UID: "1", Type: event}))
	}
	for _, tc := range []struct {
		t    probe.Type
		r    probe.Verdict
		want syncloop.Kind
	}{
		{probe.Readiness, probe.Success, syncloop.ReadinessChanged},
		{probe.Readiness, probe.Failure, syncloop.ReadinessChanged},
		{probe.Startup, probe.Success, syncloop.StartupChanged},
		{probe.Liveness, probe.Success, syncloop.LivenessPassed},
		{probe.Liveness, probe.Failure, syncloop.LivenessFailed},
	} {
		require.Equal(t, syncloop.Event{Kind: tc.want, UID: "1"}, probedEvent(probe.Change{UID: "1", Stored: probe.Stored{Type: tc.t, Result: tc.r}}))
	}
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
		w.sleep(5 * time.Second)
		require.Contains(t, moved, podworkers.StateSyncing)
		require.Len(t, w.running(), 1)
		cancel()
		require.NoError(t, <-done)
	})
}

// Syncs of pods and collections of garbage are spans, if somebody wants them.
func TestSpans(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		var mu sync.Mutex
		begun, ended := map[string]int{}, map[string]int{}
		w.span = func(ctx context.Context, name string, _ ...slog.Attr) (context.Context, func(error)) {
			mu.Lock()
			defer mu.Unlock()
			begun[name]++
			return ctx, func(error) {
				mu.Lock()
				defer mu.Unlock()
				ended[name]++
			}
		}
		w.start()
		w.set(newPod("1", v1.RestartPolicyAlways, "a"))
		w.sleep(90 * time.Second)
		w.set()
		w.sleep(10 * time.Second)
		w.stop()
		require.Equal(t, begun, ended)
		require.Positive(t, ended["syncPod"])
		require.Positive(t, ended["syncTerminatingPod"])
		require.Positive(t, ended["Containers/GarbageCollect"])
	})
}
