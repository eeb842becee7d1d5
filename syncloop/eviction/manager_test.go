package eviction

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bench is a node of which a Manager takes care.
type bench struct {
	mu       sync.Mutex // of left and fails, which tests change meanwhile
	signal   Signal
	left     uint64
	pods     []*v1.Pod
	measured int
	fails    error
	events   []string
	killed   []string
	pressure []Pressure
}

func (b *bench) config(p Policy) Config {
	return Config{
		Policy: p,
		Measure: func(context.Context) (Usage, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.measured++
			u := left(b.signal, b.left, 1000, time.Now())
			for _, pod := range b.pods {
				u.Pods[pod.UID] = memoryUse(10)
			}
			return u, b.fails
		},
		Pods: func() []*v1.Pod { return b.pods },
		Kill: func(_ context.Context, v Victim) error {
			b.killed = append(b.killed, v.Pod.Name)
			b.pods = without(b.pods, v.Pod.UID)
			return nil
		},
		Node: v1.ObjectReference{Kind: "Node", Name: "n"},
		Event: func(ref v1.ObjectReference, _ map[string]string, kind, reason, message string) {
			b.events = append(b.events, ref.Kind+" "+ref.Name+" "+kind+" "+reason)
		},
		OnPressure: func(p Pressure) { b.pressure = append(b.pressure, p) },
	}
}

func (b *bench) set(left uint64, fails error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.fails = left, fails
}

func without(pods []*v1.Pod, uid types.UID) (out []*v1.Pod) {
	for _, pod := range pods {
		if pod.UID != uid {
			out = append(out, pod)
		}
	}
	return out
}

// during runs a Manager in a bubble for a while, and f beside it.
func during(t *testing.T, cfg Config, d time.Duration, f func(m *Manager)) {
	m, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	synctest.Wait()
	f(m)
	require.NoError(t, <-ended)
}

// pass lets time go by, and what is due then be done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestOneGoesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{signal: MemoryAvailable, left: 1, pods: []*v1.Pod{named("a"), named("b")}}
		cfg := b.config(Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100)}, Transition: 15 * time.Second})
		cleaned := time.Now().Add(7 * time.Second)
		cfg.Cleaned = func(*v1.Pod) bool { return !time.Now().Before(cleaned) }
		during(t, cfg, time.Minute, func(m *Manager) {
			require.Equal(t, []string{"a"}, b.killed)
			require.Equal(t, Pressure{Memory: true}, m.Pressure())
			b.set(500, nil)
			pass(30 * time.Second)
			require.Equal(t, []string{"a"}, b.killed, "what is left suffices")
			require.Equal(t, Pressure{}, m.Pressure())
		})
		require.Equal(t, []string{"Node n Warning EvictionThresholdMet", "Pod a Warning Evicted"}, b.events)
		require.Equal(t, []Pressure{{Memory: true}, {}}, b.pressure)
	})
}

// What cannot be measured after something was removed changes nothing of what was measured
// before; a failure of that is said.
func TestUnknownAfterReclaim(t *testing.T) {
	for _, fails := range []error{nil, errors.New("no runtime")} {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{signal: ImageFSAvailable, left: 1, pods: []*v1.Pod{named("a"), named("big")}}
			cfg := b.config(Policy{Thresholds: []Threshold{hard(ImageFSAvailable, 100)}})
			removed, measure := false, cfg.Measure
			cfg.Measure = func(ctx context.Context) (Usage, error) {
				u, err := measure(ctx)
				u.Pods = map[types.UID]PodUsage{"a": diskUse(1, 0, 0), "big": diskUse(100, 0, 0)}
				if removed {
					return Usage{}, fails
				}
				return u, err
			}
			cfg.RemoveUnusedImages = func(context.Context) error { removed = true; return nil }
			log := logTo(&cfg)
			during(t, cfg, 500*time.Millisecond, func(*Manager) { require.Equal(t, []string{"big"}, b.killed) })
			require.Equal(t, fails != nil, strings.Contains(log.String(), "no runtime"))
		})
	}
}

// N27
func TestImagesGoFirst(t *testing.T) {
	for freed, wantKilled := range map[uint64][]string{1000: nil, 50: {"a"}} {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{signal: ImageFSAvailable, left: 1, pods: []*v1.Pod{named("a")}}
			cfg := b.config(Policy{Thresholds: []Threshold{hard(ImageFSAvailable, 100)}})
			cfg.RemoveDeadContainers = func(context.Context) error { return errors.New("none today") }
			cfg.RemoveUnusedImages = func(context.Context) error { b.left += freed; return nil }
			during(t, cfg, 500*time.Millisecond, func(*Manager) {
				require.Equal(t, wantKilled, b.killed)
				require.Equal(t, "Node n Warning EvictionThresholdMet", b.events[0])
			})
		})
	}
}

// N29
func TestNobodyToEvictIsNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{signal: MemoryAvailable, pods: []*v1.Pod{named("a", static)}}
		during(t, b.config(Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100)}}), 95*time.Second, func(*Manager) {})
		require.Empty(t, b.killed)
		require.Equal(t, 10, b.measured)
	})
}

func TestKillThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{signal: MemoryAvailable, pods: []*v1.Pod{named("a"), named("b")}}
		cfg := b.config(Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100)}})
		var took []time.Duration
		cfg.Kill = func(ctx context.Context, v Victim) error {
			began := time.Now()
			<-ctx.Done()
			took = append(took, time.Since(began))
			return ctx.Err()
		}
		log := logTo(&cfg)
		during(t, cfg, 25*time.Second, func(*Manager) {
			pass(11 * time.Second)
			require.Equal(t, 1, strings.Count(log.String(), "has not ended"))
		})
		require.Equal(t, []time.Duration{10 * time.Second, 5 * time.Second}, took, "one per pass, ten seconds at most, and the Interval between")
		require.Equal(t, 1, strings.Count(log.String(), "has not ended"), "the agent ended during the second")
		require.Contains(t, log.String(), context.DeadlineExceeded.Error())
	})
}

// A pod over its limit of storage that cannot be killed does not keep others in place while
// memory is short; one that can be killed goes alone.
func TestOverLimitAndPressure(t *testing.T) {
	for _, c := range []struct {
		stuck bool
		want  []string
	}{{true, []string{"over", "bystander"}}, {false, []string{"over"}}} {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{signal: MemoryAvailable, left: 50, pods: []*v1.Pod{named("over", emptyDir("1Mi")), named("bystander")}}
			cfg := b.config(Policy{LocalStorage: true, Thresholds: []Threshold{hard(MemoryAvailable, 100)}})
			measure, kill := cfg.Measure, cfg.Kill
			cfg.Measure = func(ctx context.Context) (Usage, error) {
				u, err := measure(ctx)
				if used, ok := u.Pods["over"]; ok {
					used.EmptyDirs = map[string]uint64{"v": 2 * mi}
					u.Pods["over"] = used
				}
				return u, err
			}
			cfg.Kill = func(ctx context.Context, v Victim) error {
				if c.stuck && v.Pod.Name == "over" {
					b.killed = append(b.killed, "over")
					return errors.New("its process is stuck")
				}
				return kill(ctx, v)
			}
			during(t, cfg, 900*time.Millisecond, func(*Manager) {})
			require.Equal(t, c.want, b.killed)
		})
	}
}

// An agent that ends while a pod over its limit is being killed tries nothing else.
func TestEndDuringAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{signal: MemoryAvailable, left: 50, pods: []*v1.Pod{named("over", emptyDir("1Mi"))}}
		cfg := b.config(Policy{LocalStorage: true, Thresholds: []Threshold{hard(MemoryAvailable, 100)}})
		cfg.Measure = func(context.Context) (Usage, error) {
			u := left(MemoryAvailable, 50, 1000, time.Now())
			u.Pods["over"] = PodUsage{EmptyDirs: map[string]uint64{"v": 2 * mi}}
			return u, nil
		}
		cfg.Kill = func(ctx context.Context, _ Victim) error { <-ctx.Done(); return ctx.Err() }
		during(t, cfg, 100*time.Millisecond, func(*Manager) {})
		require.Equal(t, []string{"Pod over Warning Evicted"}, b.events)
	})
}

func TestMeasureThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{signal: MemoryAvailable, pods: []*v1.Pod{named("a")}, fails: errors.New("no runtime")}
		cfg := b.config(Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100)}})
		log := logTo(&cfg)
		during(t, cfg, time.Minute, func(m *Manager) {
			require.Equal(t, Pressure{}, m.Pressure())
			require.Contains(t, log.String(), "no runtime")
			b.set(500, nil)
			pass(11 * time.Second)
			log.Reset()
			pass(11 * time.Second)
			require.Empty(t, log)
			b.set(0, nil)
			pass(11 * time.Second)
			require.Equal(t, []string{"a"}, b.killed)
		})
	})
}

func TestWatchWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{signal: MemoryAvailable, left: 500, pods: []*v1.Pod{named("a")}}
		cfg := b.config(Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100)}})
		log := logTo(&cfg)
		cfg.Watch = func(ctx context.Context, wake func()) error {
			time.Sleep(3 * time.Second)
			b.set(1, nil)
			wake()
			wake()
			return errors.New("the kernel tells nothing more")
		}
		during(t, cfg, 9*time.Second, func(*Manager) {
			pass(4 * time.Second)
			require.Equal(t, []string{"a"}, b.killed)
			require.Contains(t, log.String(), "the kernel tells nothing more")
		})
	})
}

func TestNothingToWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		during(t, b.config(Policy{}), time.Minute, func(*Manager) {})
		require.Zero(t, b.measured)
	})
}

func TestNewNamesTheField(t *testing.T) {
	_, err := New(Config{})
	for _, field := range []string{"Measure", "Pods", "Kill"} {
		require.ErrorContains(t, err, "eviction: Config."+field+" is required")
	}
	for field, edit := range map[string]func(*Config){
		"Interval": func(c *Config) { c.Interval = -1 }, "CleanupLimit": func(c *Config) { c.CleanupLimit = -1 },
		"Policy.Transition": func(c *Config) { c.Policy.Transition = -1 }, "Policy.MaxPodGrace": func(c *Config) { c.Policy.MaxPodGrace = -1 },
	} {
		cfg := (&bench{}).config(Policy{})
		edit(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, "eviction: Config."+field+" is negative")
	}
}
