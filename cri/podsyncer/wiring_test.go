package podsyncer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/syncloop"
)

func TestConfigErrorsNameTheField(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		good := w.config(&node{})
		for field, spoil := range map[string]func(*Config){
			"Config.ShutdownTimeout": func(c *Config) { c.ShutdownTimeout = -1 },
			"Config.Probers":         func(c *Config) { c.Probes.Probers = map[probe.Handler]probe.Prober{} },
			"Config.RetryBackoff":    func(c *Config) { c.Workers.RetryBackoff = -1 },
			"HandlerConfig.Cleaners": func(c *Config) { c.Handler.Cleaners = []syncloop.Cleaner{{}} },
			"RelistPeriod":           func(c *Config) { c.PLEG.RelistPeriod = -1 },
		} {
			cfg := good
			spoil(&cfg)
			_, err := New(cfg)
			require.ErrorContains(t, err, field)
		}
	})
}

// All required fields are reported at once.
func TestRequiredFields(t *testing.T) {
	_, err := New(Config{})
	for _, field := range []string{"Pods.Runtime", "Pods.RuntimeName", "Pods.Images", "Pods.Owner", "Checkpoint", "Probes.Probers", "Loop.Pods"} {
		require.ErrorContains(t, err, "podsyncer: Config."+field+" is required")
	}
}

func TestRunWorksOnce(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		w.start()
		w.stop()
		require.ErrorIs(t, w.agent.Run(w.t.Context()), ErrAlreadyRun)
		// No pod is removed before the sources are ready.
		s := w.newNode()
		require.False(t, s.unused("1"))
		require.False(t, s.releasable("1"))
	})
}

// Explain has the reason for each container that does not run, and forgets it once all run.
func TestExplain(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		w.run(time.Second, pod)
		defer w.stop()
		require.ErrorContains(t, w.agent.Explain("1")[0].Err, `cannot find volume "v"`)
		w.set(newPod("1", v1.RestartPolicyAlways, "a"))
		w.Sleep(5 * time.Second)
		require.Empty(t, w.agent.Explain("1"))
	})
}

func TestNamesake(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}}
	running := func(uid types.UID, namespace, name string) observed.ListedPod {
		return observed.ListedPod{UID: uid, Namespace: namespace, Name: name, Sandboxes: []observed.ListedSandbox{{ID: "s", State: observed.SandboxReady}}}
	}
	uid, found := namesake(pod, []observed.ListedPod{running("1", "ns", "a"), running("2", "other", "a"), running("3", "ns", "b"), {UID: "4", Namespace: "ns", Name: "a"}})
	require.False(t, found, uid)
	uid, found = namesake(pod, []observed.ListedPod{running("1", "ns", "a"), running("2", "ns", "a")})
	require.True(t, found)
	require.Equal(t, types.UID("2"), uid)
}

// The callbacks of the parts are called, and OnSync before each sync.
func TestCallbacksOfTheUser(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		n := &node{}
		cfg := w.config(n)
		var moved []podworkers.State
		var synced, observed, probed atomic.Int32
		cfg.Workers.OnTransition = func(tr podworkers.Transition) { moved = append(moved, tr.To) }
		cfg.OnSync = func(podworkers.Work) { synced.Add(1) }
		cfg.PLEG.OnEvent = func(pleg.Event) { observed.Add(1) }
		cfg.Probes.OnChange = func(probe.Change) { probed.Add(1) }
		cfg.Loop.Health = func() error {
			if synced.Load() > 0 {
				return errors.New("the runtime is away")
			}
			return nil
		}
		n.Syncer = must(New(cfg))
		ctx, cancel := context.WithCancel(w.t.Context())
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx) }()
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Spec.Containers[0].ReadinessProbe = asking("ready", 1)
		require.NoError(t, n.merger.Set("file", []*v1.Pod{pod}, n.Loop().Emit))
		w.Sleep(5 * time.Second)
		require.Contains(t, moved, podworkers.StateSyncing)
		for _, calls := range []*atomic.Int32{&synced, &observed, &probed} {
			require.Positive(t, calls.Load())
		}
		require.Len(t, w.Running(), 1)
		require.NoError(t, n.merger.Set("file", nil, n.Loop().Emit))
		w.Sleep(time.Minute)
		require.Len(t, w.Running(), 1, "no removal is handled while the agent is unhealthy")
		cancel()
		require.NoError(t, <-done)
	})
}

// Syncs of pods and garbage collections are spans.
func TestSpans(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
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
