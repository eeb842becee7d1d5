package eviction

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// logTo has a Manager log into what is returned.
func logTo(cfg *Config) *strings.Builder {
	log := &strings.Builder{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	return log
}

// The next pod goes when the one before is cleaned up, looked at each second, or when that
// has taken too long.
func TestWhenTheNextGoes(t *testing.T) {
	for cleaned, want := range map[time.Duration]time.Duration{0: time.Second, 6500 * time.Millisecond: 7 * time.Second, time.Hour: 31 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{signal: MemoryAvailable, left: 1, pods: []*v1.Pod{named("a"), named("b")}}
			cfg := b.config(Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100)}})
			begin := time.Now()
			cfg.Cleaned = func(pod *v1.Pod) bool { return time.Since(begin) >= cleaned }
			kill, went, told := cfg.Kill, []time.Duration{}, []string{}
			cfg.OnEvict = func(v Victim) { told = append(told, v.Pod.Name) }
			cfg.Kill = func(ctx context.Context, v Victim) error {
				went = append(went, time.Since(begin))
				return kill(ctx, v)
			}
			log := logTo(&cfg)
			during(t, cfg, 50*time.Second, func(*Manager) {})
			require.Equal(t, []time.Duration{0, want}, went)
			require.Equal(t, []string{"a", "b"}, told)
			require.NotContains(t, log.String(), "has not ended")
		})
	}
}

// A soft threshold acts after its grace period, which begins with the first pass that meets it.
func TestSoftThresholdAcrossPasses(t *testing.T) {
	for after, want := range map[time.Duration][]string{29 * time.Second: nil, 31 * time.Second: {"a"}} {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{signal: MemoryAvailable, left: 1, pods: []*v1.Pod{named("a")}}
			soft := hard(MemoryAvailable, 100)
			soft.Grace = 25 * time.Second
			during(t, b.config(Policy{Thresholds: []Threshold{soft}}), after, func(*Manager) {})
			require.Equal(t, want, b.killed)
		})
	}
}

// Only what must be there is needed.
func TestLeastConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{signal: MemoryAvailable, left: 1, pods: []*v1.Pod{named("a")}}
		full := b.config(Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100)}})
		during(t, Config{Policy: full.Policy, Measure: full.Measure, Pods: full.Pods, Kill: full.Kill}, 500*time.Millisecond, func(m *Manager) {
			require.Equal(t, []string{"a"}, b.killed)
			require.True(t, m.Pressure().Memory)
		})
	})
}

// Limits of local storage are watched without any threshold; with neither nothing is, and
// Run goes on until its context ends.
func TestWhatIsWatched(t *testing.T) {
	for _, storage := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b, begin := &bench{}, time.Now()
			during(t, b.config(Policy{LocalStorage: storage}), time.Minute, func(*Manager) {})
			require.Equal(t, time.Minute, time.Since(begin))
			require.Equal(t, storage, b.measured > 0)
		})
	}
}

// Who is woken during a pass, however often, makes another one after it.
func TestWokenDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{signal: MemoryAvailable, left: 500}
		cfg := b.config(Policy{Thresholds: []Threshold{hard(MemoryAvailable, 100)}})
		measure := cfg.Measure
		cfg.Measure = func(ctx context.Context) (Usage, error) { time.Sleep(time.Second); return measure(ctx) }
		cfg.Watch = func(_ context.Context, wake func()) error { wake(); wake(); return nil }
		log := logTo(&cfg)
		during(t, cfg, 5*time.Second, func(*Manager) {})
		require.Equal(t, 2, b.measured)
		require.Empty(t, log.String())
	})
}

// What an agent that ends leaves undone is no failure.
func TestEndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{signal: ImageFSAvailable, left: 1, pods: []*v1.Pod{named("a")}}
		cfg := b.config(Policy{Thresholds: []Threshold{hard(ImageFSAvailable, 100)}})
		cfg.RemoveUnusedImages = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		cfg.Watch = func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }
		log := logTo(&cfg)
		during(t, cfg, time.Second, func(*Manager) {})
		require.Empty(t, b.killed)
		require.Empty(t, log.String())

		measure := cfg.Measure // what was removed cannot be measured any more
		cfg.Measure = func(ctx context.Context) (Usage, error) {
			if ctx.Err() != nil {
				return Usage{}, ctx.Err()
			}
			return measure(ctx)
		}
		during(t, cfg, time.Second, func(*Manager) {})
		require.Empty(t, b.killed)
		require.Empty(t, log.String())

		b.pods = nil // and nobody could go
		during(t, cfg, time.Second, func(*Manager) {})
		require.Empty(t, log.String())

		b.pods = []*v1.Pod{named("over"), named("too")}
		cfg.Policy, cfg.Watch = Policy{LocalStorage: true}, nil
		cfg.Measure = func(ctx context.Context) (Usage, error) { <-ctx.Done(); return Usage{}, ctx.Err() }
		during(t, cfg, time.Second, func(*Manager) {})
		require.Empty(t, log.String())
	})
}

// Of several pods over their limits, those that are left when the agent ends stay.
func TestEndBetweenKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{pods: []*v1.Pod{named("a", emptyDir("1Mi")), named("b", emptyDir("1Mi"))}}
		cfg := b.config(Policy{LocalStorage: true})
		cfg.Measure = func(context.Context) (Usage, error) {
			over := PodUsage{EmptyDirs: map[string]uint64{"v": 2 * mi}}
			return Usage{Pods: map[types.UID]PodUsage{"a": over, "b": over}}, nil
		}
		cfg.Kill = func(ctx context.Context, _ Victim) error { <-ctx.Done(); return ctx.Err() }
		during(t, cfg, time.Second, func(*Manager) {})
		require.Equal(t, []string{"Pod a Warning Evicted"}, b.events)
	})
}

// Only what helps is removed, and what goes wrong with that is said.
func TestWhatIsRemoved(t *testing.T) {
	for signal, want := range map[Signal]string{MemoryAvailable: "", NodeFSAvailable: "containers images "} {
		for _, fails := range []error{nil, errors.New("it is busy")} {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{signal: signal, left: 1, pods: []*v1.Pod{named("a")}}
				cfg, removed := b.config(Policy{Thresholds: []Threshold{hard(signal, 100)}}), ""
				cfg.RemoveDeadContainers = func(context.Context) error { removed += "containers "; return fails }
				cfg.RemoveUnusedImages = func(context.Context) error { removed += "images "; return fails }
				log := logTo(&cfg)
				during(t, cfg, 500*time.Millisecond, func(*Manager) {})
				require.Equal(t, want, removed)
				if fails != nil && want != "" {
					require.Contains(t, log.String(), "it is busy")
				} else {
					require.Empty(t, log.String())
				}
				require.Equal(t, []string{"a"}, b.killed)
			})
		}
	}
	synctest.Test(t, func(t *testing.T) { // nobody can remove anything
		b := &bench{signal: NodeFSAvailable, left: 1, pods: []*v1.Pod{named("a")}}
		cfg := b.config(Policy{Thresholds: []Threshold{hard(NodeFSAvailable, 100)}})
		log := logTo(&cfg)
		during(t, cfg, 500*time.Millisecond, func(*Manager) {})
		require.Empty(t, log.String())
		require.Equal(t, 1, b.measured)
	})
}

// Who goes after something was removed is decided by what was measured then.
func TestMeasuredAnewAfterReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{signal: ImageFSAvailable, left: 1, pods: []*v1.Pod{named("shrinks"), named("grows")}}
		cfg := b.config(Policy{Thresholds: []Threshold{hard(ImageFSAvailable, 100)}})
		measure, removed := cfg.Measure, false
		cfg.Measure = func(ctx context.Context) (Usage, error) {
			u, err := measure(ctx)
			u.Pods = map[types.UID]PodUsage{"shrinks": diskUse(50, 0, 0), "grows": diskUse(10, 0, 0)}
			if removed {
				u.Pods["grows"] = diskUse(90, 0, 0)
			}
			return u, err
		}
		cfg.RemoveUnusedImages = func(context.Context) error { removed = true; return nil }
		during(t, cfg, 500*time.Millisecond, func(*Manager) { require.Equal(t, []string{"grows"}, b.killed) })
	})
}
