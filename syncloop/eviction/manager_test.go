package eviction

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testNode is a node with a Manager and, by default, a hard threshold of 100 for one signal.
type testNode struct {
	mu        sync.Mutex // guards available and err, which tests change during a run
	signal    Signal
	available uint64
	pods      []*v1.Pod
	measured  int
	err       error
	events    []string
	killed    []string
	pressure  []Pressure
}

func (b *testNode) measure(context.Context) (Usage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.measured++
	u := usageOf(b.signal, b.available, 1000, time.Now())
	for _, pod := range b.pods {
		u.Pods[pod.UID] = memoryUse(10)
	}
	return u, b.err
}

func (b *testNode) kill(_ context.Context, v Victim) error {
	b.killed = append(b.killed, v.Pod.Name)
	b.pods = without(b.pods, v.Pod.UID)
	return nil
}

func (b *testNode) config() Config {
	return Config{
		Policy:  Policy{Thresholds: []Threshold{hard(b.signal, 100)}},
		Measure: b.measure, Kill: b.kill,
		Pods: func() []*v1.Pod { return b.pods },
		Node: v1.ObjectReference{Kind: "Node", Name: "n"},
		Event: func(ref v1.ObjectReference, _ map[string]string, kind, reason, message string) {
			b.events = append(b.events, ref.Kind+" "+ref.Name+" "+kind+" "+reason)
		},
		OnPressure: func(p Pressure) { b.pressure = append(b.pressure, p) },
	}
}

func (b *testNode) set(available uint64, fails error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.available, b.err = available, fails
}

func without(pods []*v1.Pod, uid types.UID) (out []*v1.Pod) {
	for _, pod := range pods {
		if pod.UID != uid {
			out = append(out, pod)
		}
	}
	return out
}

// runFor runs a Manager in a bubble for a duration, with f in parallel.
func (b *testNode) runFor(t *testing.T, d time.Duration, edit func(*Config), f func(m *Manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := b.config()
		if edit != nil {
			edit(&cfg)
		}
		m, err := New(cfg)
		require.NoError(t, err)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		if f != nil {
			f(m)
		}
		require.NoError(t, <-ended)
		require.Equal(t, d, time.Since(begin), "Run blocks until its context is done")
		require.ErrorIs(t, m.Run(t.Context()), ErrAlreadyRun)
	})
}

// advance advances the time and waits for due work.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// overEmptyDirLimit returns the usage of an emptyDir volume of 1Mi at twice its limit.
func overEmptyDirLimit() PodUsage { return PodUsage{EmptyDirs: map[string]uint64{"v": 2 * mi}} }

func TestOneEvictionAtATime(t *testing.T) {
	b := &testNode{signal: MemoryAvailable, available: 1, pods: []*v1.Pod{newPod("a"), newPod("b")}}
	b.runFor(t, time.Minute, func(cfg *Config) {
		cfg.Policy.Transition = 15 * time.Second
		cleaned := time.Now().Add(7 * time.Second)
		cfg.Cleaned = func(*v1.Pod) bool { return !time.Now().Before(cleaned) }
	}, func(m *Manager) {
		require.Equal(t, []string{"a"}, b.killed)
		require.Equal(t, Pressure{Memory: true}, m.Pressure())
		b.set(500, nil)
		advance(30 * time.Second)
		require.Equal(t, []string{"a"}, b.killed, "enough memory is available")
		require.Equal(t, Pressure{}, m.Pressure())
	})
	require.Equal(t, []string{"Node n Warning EvictionThresholdMet", "Pod a Warning Evicted"}, b.events)
	require.Equal(t, []Pressure{{Memory: true}, {}}, b.pressure)
}

// N26: the grace period of a soft threshold begins with the first pass that meets it.
func TestSoftThresholdAcrossPasses(t *testing.T) {
	for after, want := range map[time.Duration][]string{29 * time.Second: nil, 31 * time.Second: {"a"}} {
		b := &testNode{signal: MemoryAvailable, available: 1, pods: []*v1.Pod{newPod("a")}}
		b.runFor(t, after, func(cfg *Config) { cfg.Policy.Thresholds[0].Grace = 25 * time.Second }, nil)
		require.Equal(t, want, b.killed)
	}
}

// The next eviction follows when the previous pod is cleaned up, checked each second, or after
// 30 s.
func TestNextEvictionWaitsForCleanup(t *testing.T) {
	for cleaned, want := range map[time.Duration]time.Duration{0: time.Second, 6500 * time.Millisecond: 7 * time.Second, time.Hour: 31 * time.Second} {
		b := &testNode{signal: MemoryAvailable, available: 1, pods: []*v1.Pod{newPod("a"), newPod("b")}}
		kills, evicted := []time.Duration{}, []string{}
		b.runFor(t, 50*time.Second, func(cfg *Config) {
			begin := time.Now()
			cfg.Cleaned = func(*v1.Pod) bool { return time.Since(begin) >= cleaned }
			cfg.OnEvict = func(v Victim) { evicted = append(evicted, v.Pod.Name) }
			cfg.Kill = func(ctx context.Context, v Victim) error {
				kills = append(kills, time.Since(begin))
				return b.kill(ctx, v)
			}
		}, nil)
		require.Equal(t, []time.Duration{0, want}, kills)
		require.Equal(t, []string{"a", "b"}, evicted)
	}
}

// N27: images are removed first; a pod is evicted only if that does not suffice. The victim is
// chosen by the measurement after the removal, or by the one before it if measuring fails.
func TestReclaim(t *testing.T) {
	uses := func(a, b uint64) map[types.UID]PodUsage {
		return map[types.UID]PodUsage{"a": diskUse(a, 0, 0), "b": diskUse(b, 0, 0)}
	}
	for name, c := range map[string]struct {
		freed uint64
		after map[types.UID]PodUsage // nil: unknown
		fails error
		want  []string
	}{
		"suffices":                {1000, uses(50, 10), nil, nil},
		"does not suffice":        {50, uses(50, 10), nil, []string{"a"}},
		"new measurement decides": {50, uses(50, 90), nil, []string{"b"}},
		"unknown":                 {1000, nil, nil, []string{"a"}},
		"no measurement":          {1000, nil, errors.New("no runtime"), []string{"a"}},
	} {
		b := &testNode{signal: ImageFSAvailable, available: 1, pods: []*v1.Pod{newPod("b"), newPod("a")}}
		removed := false
		b.runFor(t, 500*time.Millisecond, func(cfg *Config) {
			cfg.RemoveDeadContainers = func(context.Context) error { return errors.New("cannot remove containers") }
			cfg.RemoveUnusedImages = func(context.Context) error { b.available += c.freed; removed = true; return nil }
			cfg.Measure = func(ctx context.Context) (Usage, error) {
				u, err := b.measure(ctx)
				u.Pods = uses(50, 10)
				if removed {
					u.Pods = c.after
				}
				if removed && c.after == nil {
					return Usage{}, c.fails
				}
				return u, err
			}
		}, nil)
		require.Equal(t, c.want, b.killed, name)
		require.Equal(t, "Node n Warning EvictionThresholdMet", b.events[0], name)
	}
}

// The Manager removes only images and containers that help, if callbacks exist, and evicts a pod
// even if the removal fails.
func TestReclaimRemovesOnlyUsefulObjects(t *testing.T) {
	for signal, want := range map[Signal]string{MemoryAvailable: "", NodeFSAvailable: "containers images "} {
		for _, fails := range []error{nil, errors.New("runtime is busy")} {
			b, removed := &testNode{signal: signal, available: 1, pods: []*v1.Pod{newPod("a")}}, ""
			b.runFor(t, 500*time.Millisecond, func(cfg *Config) {
				cfg.RemoveDeadContainers = func(context.Context) error { removed += "containers "; return fails }
				cfg.RemoveUnusedImages = func(context.Context) error { removed += "images "; return fails }
			}, nil)
			require.Equal(t, want, removed)
			require.Equal(t, []string{"a"}, b.killed)
		}
	}
	b := &testNode{signal: NodeFSAvailable, available: 1, pods: []*v1.Pod{newPod("a")}}
	b.runFor(t, 500*time.Millisecond, nil, nil)
	require.Equal(t, 1, b.measured, "without cleanup there is no second measurement")
}

// N29
func TestNoBusyLoopWithoutVictim(t *testing.T) {
	b := &testNode{signal: MemoryAvailable, pods: []*v1.Pod{newPod("a", static)}}
	b.runFor(t, 95*time.Second, nil, nil)
	require.Empty(t, b.killed)
	require.Equal(t, 10, b.measured)
}

func TestFailedKillIsBounded(t *testing.T) {
	b, took := &testNode{signal: MemoryAvailable, pods: []*v1.Pod{newPod("a"), newPod("b")}}, []time.Duration{}
	b.runFor(t, 25*time.Second, func(cfg *Config) {
		cfg.Kill = func(ctx context.Context, v Victim) error {
			began := time.Now()
			<-ctx.Done()
			took = append(took, time.Since(began))
			return ctx.Err()
		}
	}, nil)
	require.Equal(t, []time.Duration{10 * time.Second, 5 * time.Second}, took, "one kill per pass, at most 10 s each, with the interval between passes")
}

// A callback that ignores its context delays evictions for a limited time, is not called twice at a
// time, and does not keep Run from ending.
func TestCallbacksHang(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(cfg *Config, hang func())
		want []string // killed pods
		left string
	}{
		"Kill": {func(cfg *Config, hang func()) {
			kill := cfg.Kill
			cfg.Kill = func(ctx context.Context, v Victim) error {
				if v.Pod.Name == "a" {
					hang()
				}
				return kill(ctx, v)
			}
		}, []string{"b"}, "Kill a since 2000-01-01T00:00:00Z"},
		"Measure": {func(cfg *Config, hang func()) {
			cfg.Measure = func(context.Context) (Usage, error) { hang(); return Usage{}, nil }
		}, nil, "Measure the node since 2000-01-01T00:00:00Z"},
		"RemoveUnusedImages": {func(cfg *Config, hang func()) {
			cfg.Policy.LocalStorage = false
			cfg.RemoveUnusedImages = func(context.Context) error { hang(); return nil }
		}, []string{"a", "b"}, "RemoveUnusedImages of the node since 2000-01-01T00:00:00Z"},
		"Watch": {func(cfg *Config, hang func()) {
			cfg.Watch = func(context.Context, func()) error { hang(); return nil }
		}, []string{"a", "b"}, "Watch"},
		"Pods": {func(cfg *Config, hang func()) { cfg.Pods = func() []*v1.Pod { hang(); return nil } }, nil, "Pods, pass"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &testNode{signal: ImageFSAvailable, available: 1, pods: []*v1.Pod{newPod("a", emptyDir("1Mi")), newPod("b", emptyDir("1Mi"))}}
				cfg := b.config()
				cfg.Policy.LocalStorage = true
				cfg.Measure = func(ctx context.Context) (Usage, error) {
					u, err := b.measure(ctx)
					u.Pods = map[types.UID]PodUsage{"a": overEmptyDirLimit(), "b": overEmptyDirLimit()}
					return u, err
				}
				release := make(chan struct{})
				var running atomic.Int32
				c.edit(&cfg, func() { running.Add(1); <-release })
				m, err := New(cfg)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				require.EqualError(t, m.Run(ctx), "eviction: still running after the shutdown timeout (10s): "+c.left)
				require.Equal(t, c.want, b.killed)
				require.Equal(t, int32(1), running.Load())
				close(release)
			})
		})
	}
}

// A pod over its storage limit that cannot be killed does not prevent an eviction for memory. If
// it can be killed, it is the only victim.
func TestOverLimitAndPressure(t *testing.T) {
	for stuck, want := range map[bool][]string{true: {"over", "bystander"}, false: {"over"}} {
		b := &testNode{signal: MemoryAvailable, available: 50, pods: []*v1.Pod{newPod("over", emptyDir("1Mi")), newPod("bystander")}}
		b.runFor(t, 900*time.Millisecond, func(cfg *Config) {
			cfg.Policy.LocalStorage = true
			cfg.Measure = func(ctx context.Context) (Usage, error) {
				u, err := b.measure(ctx)
				if used, ok := u.Pods["over"]; ok {
					used.EmptyDirs = overEmptyDirLimit().EmptyDirs
					u.Pods["over"] = used
				}
				return u, err
			}
			cfg.Kill = func(ctx context.Context, v Victim) error {
				if stuck && v.Pod.Name == "over" {
					b.killed = append(b.killed, "over")
					return errors.New("process is stuck")
				}
				return b.kill(ctx, v)
			}
		}, nil)
		require.Equal(t, want, b.killed)
	}
}

// If the agent stops while a pod over its limit is killed, no other pod is killed.
func TestStopDuringKill(t *testing.T) {
	for _, pods := range [][]*v1.Pod{{newPod("a", emptyDir("1Mi"))}, {newPod("a", emptyDir("1Mi")), newPod("b", emptyDir("1Mi"))}} {
		b := &testNode{signal: MemoryAvailable, available: 50, pods: pods}
		b.runFor(t, 100*time.Millisecond, func(cfg *Config) {
			cfg.Policy.LocalStorage = true
			cfg.Measure = func(ctx context.Context) (Usage, error) {
				u, err := b.measure(ctx)
				u.Pods = map[types.UID]PodUsage{"a": overEmptyDirLimit(), "b": overEmptyDirLimit()}
				return u, err
			}
			cfg.Kill = func(ctx context.Context, _ Victim) error { <-ctx.Done(); return ctx.Err() }
		}, nil)
		require.Equal(t, []string{"Pod a Warning Evicted"}, b.events)
	}
}

// If the agent stops while images are removed, no pod is killed.
func TestStopDuringReclaim(t *testing.T) {
	b := &testNode{signal: ImageFSAvailable, available: 1, pods: []*v1.Pod{newPod("a")}}
	b.runFor(t, time.Second, func(cfg *Config) {
		cfg.RemoveUnusedImages = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		cfg.Watch = func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }
	}, nil)
	require.Empty(t, b.killed)
}

func TestFailedMeasurementIsRetried(t *testing.T) {
	b := &testNode{signal: MemoryAvailable, pods: []*v1.Pod{newPod("a")}, err: errors.New("no runtime")}
	b.runFor(t, time.Minute, nil, func(m *Manager) {
		require.Equal(t, Pressure{}, m.Pressure())
		require.Empty(t, b.killed)
		b.set(0, nil)
		advance(11 * time.Second)
		require.Equal(t, []string{"a"}, b.killed)
	})
}

func TestWatchWakes(t *testing.T) {
	b := &testNode{signal: MemoryAvailable, available: 500, pods: []*v1.Pod{newPod("a")}}
	b.runFor(t, 9*time.Second, func(cfg *Config) {
		cfg.Watch = func(ctx context.Context, wake func()) error {
			time.Sleep(3 * time.Second)
			b.set(1, nil)
			wake()
			return errors.New("watch failed")
		}
	}, func(*Manager) {
		advance(4 * time.Second)
		require.Equal(t, []string{"a"}, b.killed)
	})
}

// Wakes during a pass cause one further pass.
func TestWakeDuringPass(t *testing.T) {
	b := &testNode{signal: MemoryAvailable, available: 500}
	b.runFor(t, 5*time.Second, func(cfg *Config) {
		cfg.Measure = func(ctx context.Context) (Usage, error) { time.Sleep(time.Second); return b.measure(ctx) }
		cfg.Watch = func(_ context.Context, wake func()) error { wake(); wake(); return nil }
	}, nil)
	require.Equal(t, 2, b.measured)
}

// Limits of local storage are watched without thresholds. Without both, Run only waits for its
// context.
func TestPassesNeedThresholdsOrLimits(t *testing.T) {
	for _, storage := range []bool{false, true} {
		b := &testNode{}
		b.runFor(t, time.Minute, func(cfg *Config) { cfg.Policy = Policy{LocalStorage: storage} }, nil)
		require.Equal(t, storage, b.measured > 0)
	}
}

// The optional fields may be unset.
func TestMinimalConfig(t *testing.T) {
	b := &testNode{signal: MemoryAvailable, available: 1, pods: []*v1.Pod{newPod("a")}}
	b.runFor(t, 500*time.Millisecond, func(cfg *Config) {
		*cfg = Config{Policy: cfg.Policy, Measure: cfg.Measure, Pods: cfg.Pods, Kill: cfg.Kill}
	}, func(m *Manager) {
		require.Equal(t, []string{"a"}, b.killed)
		require.True(t, m.Pressure().Memory)
	})
}

func TestNewErrors(t *testing.T) {
	_, err := New(Config{})
	for _, field := range []string{"Measure", "Pods", "Kill"} {
		require.ErrorContains(t, err, "eviction: Config."+field+" is required")
	}
	for field, edit := range map[string]func(*Config){
		"Policy.Transition": func(c *Config) { c.Policy.Transition = -1 }, "Policy.MaxPodGrace": func(c *Config) { c.Policy.MaxPodGrace = -1 },
	} {
		cfg := (&testNode{}).config()
		edit(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, "eviction: Config."+field+" is negative")
	}
}

// A panic of a callback neither ends Run nor prevents an eviction.
func TestCallbacksPanic(t *testing.T) {
	b := &testNode{signal: MemoryAvailable, available: 50, pods: []*v1.Pod{newPod("a")}}
	calls, failing := map[string]int{}, true
	var mu sync.Mutex
	fail := func(callback string) {
		mu.Lock()
		defer mu.Unlock()
		calls[callback]++
		panic(callback)
	}
	b.runFor(t, time.Minute, func(c *Config) {
		pods := c.Pods
		c.Pods = func() []*v1.Pod {
			if failing {
				failing = false
				fail("Pods")
			}
			return pods()
		}
		c.OnEvict = func(Victim) { fail("OnEvict") }
		c.OnPressure = func(Pressure) { fail("OnPressure") }
		c.Event = func(v1.ObjectReference, map[string]string, string, string, string) { fail("Event") }
		c.Cleaned = func(*v1.Pod) bool { fail("Cleaned"); return false }
		c.Watch = func(context.Context, func()) error { fail("Watch"); return nil }
	}, nil)
	require.Equal(t, []string{"a"}, b.killed)
	require.GreaterOrEqual(t, len(calls), 6)
	require.Equal(t, []int{1, 1, 1, 1, 1}, []int{calls["Pods"], calls["OnEvict"], calls["OnPressure"], calls["Cleaned"], calls["Watch"]})
}
