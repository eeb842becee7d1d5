package syncloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tape records the calls of a handler; hooks make them do something.
type tape struct {
	mu      sync.Mutex
	calls   []string
	onSync  func()
	onClean func(context.Context) error
}

func (h *tape) note(call string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
}

func (h *tape) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = nil
	return calls
}

func names(pods []*v1.Pod) string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	return strings.Join(list, ",")
}

func (h *tape) HandlePodAdditions(_ context.Context, pods []*v1.Pod) { h.note("add " + names(pods)) }
func (h *tape) HandlePodUpdates(_ context.Context, pods []*v1.Pod)   { h.note("update " + names(pods)) }
func (h *tape) HandlePodRemoves(_ context.Context, pods []*v1.Pod)   { h.note("remove " + names(pods)) }
func (h *tape) HandlePodReconcile(_ context.Context, pods []*v1.Pod) {
	h.note("reconcile " + names(pods))
}

func (h *tape) HandlePodSyncs(_ context.Context, syncs []Sync) {
	for _, s := range syncs {
		h.note(fmt.Sprintf("sync %s (%s)", s.UID, s.Kinds))
	}
	if h.onSync != nil {
		h.onSync()
	}
}

func (h *tape) HandlePodCleanups(ctx context.Context) error {
	h.note("cleanup")
	if h.onClean != nil {
		return h.onClean(ctx)
	}
	return nil
}

// script is a PodSource whose changes a test hands in.
type script struct {
	EventSource
	mu      sync.Mutex
	changes map[string][]Change
	handled []string
}

func newScript() *script {
	return &script{changes: map[string][]Change{}, EventSource: EventSourceFunc(func(ctx context.Context, _ func(Event)) error {
		<-ctx.Done()
		return nil
	})}
}

func (s *script) put(source string, changes ...Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes[source] = append(s.changes[source], changes...)
}

func (s *script) Changes(source string) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := s.changes[source]
	delete(s.changes, source)
	return changes
}

func (s *script) Handled(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled = append(s.handled, source)
}

// bubble runs a Loop in a synctest bubble; use is the test.
func bubble(t *testing.T, edit func(*Config), use func(t *testing.T, l *Loop, h *tape, pods *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, pods := &tape{}, newScript()
		cfg := Config{Handler: h, Pods: pods, HousekeepingPeriod: time.Hour}
		if edit != nil {
			edit(&cfg)
		}
		l, err := New(cfg)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		use(t, l, h, pods)
		stop()
		require.NoError(t, <-done)
	})
}

func testPod(name string, uid types.UID, edits ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// L12: what makes a pod sync, and what does not.
func TestLoopEvents(t *testing.T) {
	bubble(t, nil, func(t *testing.T, l *Loop, h *tape, _ *script) {
		for _, kind := range []Kind{ContainerRemoved, LivenessPassed, 0, 200} {
			l.Emit(Event{Kind: kind, UID: "a"})
		}
		l.Emit(Event{Kind: PodDirty})
		synctest.Wait()
		require.Empty(t, h.take())
		for _, kind := range []Kind{PodDirty, ContainerDied, SyncDue, LivenessFailed, ReadinessChanged, StartupChanged, ResourcesChanged} {
			l.Emit(Event{Kind: kind, UID: "a"})
			synctest.Wait()
			require.Equal(t, []string{"sync a (" + kind.String() + ")"}, h.take())
		}
		l.Emit(Event{Kind: Housekeeping})
		synctest.Wait()
		require.Equal(t, []string{"cleanup"}, h.take())
	})
}

// However many events come while the handler is busy, none blocks and none is
// lost: they become one call.
func TestLoopCoalesces(t *testing.T) {
	release := make(chan struct{})
	bubble(t, func(cfg *Config) {
		release = make(chan struct{})
		cfg.Handler.(*tape).onSync = func() { <-release }
	}, func(t *testing.T, l *Loop, h *tape, pods *script) {
		l.Emit(Event{Kind: PodDirty, UID: "first"})
		synctest.Wait()
		h.take()
		for range 10_000 {
			l.Emit(Event{Kind: PodDirty, UID: "b"})
			l.Emit(Event{Kind: SyncDue, UID: "a"})
			l.Emit(Event{Kind: ContainerDied, UID: "a"})
			l.Emit(Event{Kind: PodsChanged, Source: "s"})
			l.Emit(Event{Kind: Housekeeping})
		}
		pods.put("s", Change{Op: OpAdd, Pods: []*v1.Pod{testPod("x", "x")}})
		st := l.Status()
		require.Equal(t, 2, st.WaitingPods)
		require.Equal(t, 1, st.WaitingSources)
		require.Equal(t, "syncing pods", st.Doing)
		close(release)
		synctest.Wait()
		// The housekeeping that became due during the sync belongs to its pass.
		require.Equal(t, []string{"cleanup", "add x", "sync a (container died, sync due)", "sync b (pod dirty)"}, h.take())
		require.Equal(t, []string{"s"}, pods.handled)
	})
}

func TestLoopOperations(t *testing.T) {
	bubble(t, nil, func(t *testing.T, l *Loop, h *tape, pods *script) {
		for _, op := range []Op{OpRemove, OpAdd, OpUpdate, OpDelete, OpReconcile, Op(99)} {
			pods.put("b", Change{Op: op, Source: "b", Pods: []*v1.Pod{testPod("p", "p")}})
		}
		pods.put("a", Change{Op: OpAdd, Source: "a"})
		l.Emit(Event{Kind: PodsChanged, Source: "b"})
		l.Emit(Event{Kind: PodsChanged, Source: "a"})
		synctest.Wait()
		got := h.take()
		want := []string{"remove p", "add p", "update p", "update p", "reconcile p"}
		if got[0] == "add " {
			require.Equal(t, append([]string{"add "}, want...), got)
		} else {
			require.Equal(t, append(want, "add "), got)
		}
	})
}

// L1: while the runtime is unhealthy nothing is handled, the pause doubles, and
// the end of it is forgotten.
func TestLoopUnhealthy(t *testing.T) {
	var checks []time.Duration
	var began time.Time
	bad := 3
	var log lockedBuffer
	bubble(t, func(cfg *Config) {
		began = time.Now()
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		cfg.Health = func() error {
			checks = append(checks, time.Since(began))
			if bad > 0 {
				bad--
				return fmt.Errorf("runtime is down, %d", bad)
			}
			return nil
		}
	}, func(t *testing.T, l *Loop, h *tape, _ *script) {
		l.Emit(Event{Kind: PodDirty, UID: "a"})
		require.ErrorContains(t, l.Status().Paused, "runtime is down")
		time.Sleep(699 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, h.take())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"sync a (pod dirty)"}, h.take())
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 100 * ms, 300 * ms, 700 * ms}, checks[:4])
		require.NoError(t, l.Status().Paused)
		require.Equal(t, 1, strings.Count(log.String(), "while the runtime is unhealthy"), "told once")

		bad, checks = 10, nil
		began = time.Now()
		l.Emit(Event{Kind: PodDirty, UID: "b"})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms, 11300 * ms, 16300 * ms, 21300 * ms, 26300 * ms}, checks[:11])
		require.Equal(t, []string{"sync b (pod dirty)"}, h.take(), "nothing was lost")
	})
}

// A start, where the runtime was not asked yet, is no problem to report.
func TestLoopSaysNothingOfAShortPause(t *testing.T) {
	var log lockedBuffer
	bad := 1
	bubble(t, func(cfg *Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		cfg.Health = func() error {
			if bad--; bad >= 0 {
				return errors.New("not asked yet")
			}
			return nil
		}
	}, func(t *testing.T, l *Loop, h *tape, _ *script) {
		require.ErrorContains(t, l.Status().Paused, "not asked yet")
		l.Emit(Event{Kind: PodDirty, UID: "a"})
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"sync a (pod dirty)"}, h.take())
		require.Empty(t, log.String())
	})
}

// L13: a housekeeping that hangs, or a runtime that stays down, fails the loop's
// health; a loop that waits, or never ran, is healthy.
func TestLoopHealth(t *testing.T) {
	idle, err := New(Config{Handler: &tape{}, Pods: newScript()})
	require.NoError(t, err)
	require.NoError(t, idle.CheckHealth())

	release := make(chan struct{})
	bubble(t, func(cfg *Config) {
		release = make(chan struct{})
		cfg.Handler.(*tape).onClean = func(context.Context) error { <-release; return nil }
	}, func(t *testing.T, l *Loop, _ *tape, _ *script) {
		time.Sleep(50 * time.Minute)
		require.NoError(t, l.CheckHealth(), "it has nothing to do")
		l.Emit(Event{Kind: Housekeeping})
		time.Sleep(5 * time.Minute)
		require.NoError(t, l.CheckHealth())
		time.Sleep(time.Second)
		require.ErrorContains(t, l.CheckHealth(), "housekeeping has been running for 5m1s")
		close(release)
		synctest.Wait()
		require.NoError(t, l.CheckHealth())
	})

	down := errors.New("runtime is down")
	bubble(t, func(cfg *Config) { cfg.Health = func() error { return down } }, func(t *testing.T, l *Loop, _ *tape, _ *script) {
		time.Sleep(5*time.Minute + time.Second)
		require.ErrorIs(t, l.CheckHealth(), down)
	})
}

// lockedBuffer is a buffer that a logger may write while a test reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestLoopHousekeeping(t *testing.T) {
	var log lockedBuffer
	var ready, fail atomic.Bool
	failure := errors.New("broken step")
	bubble(t, func(cfg *Config) {
		cfg.HousekeepingPeriod = 0
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		cfg.SourcesReady = ready.Load
		cfg.Handler.(*tape).onClean = func(context.Context) error {
			time.Sleep(1100 * time.Millisecond)
			if fail.Load() {
				return failure
			}
			return nil
		}
	}, func(t *testing.T, l *Loop, h *tape, _ *script) {
		time.Sleep(10 * time.Second)
		require.Empty(t, h.take(), "sources are not ready")
		ready.Store(true)
		fail.Store(true)
		time.Sleep(10*time.Second + 1500*time.Millisecond)
		require.InDelta(t, 5, len(h.take()), 1)
		require.ErrorIs(t, l.Status().HousekeepingErr, failure)
		require.Equal(t, 1, strings.Count(log.String(), "broken step"), "told once")
		require.Contains(t, log.String(), "housekeeping took long")
		fail.Store(false)
		time.Sleep(4 * time.Second)
		require.NoError(t, l.Status().HousekeepingErr)
		require.Contains(t, log.String(), "housekeeping works again")
	})
}

// A source that fails is run again, with growing pauses; one that ends is not;
// neither ends the loop.
func TestLoopSources(t *testing.T) {
	var starts []time.Duration
	var began time.Time
	broken := errors.New("broken")
	bubble(t, func(cfg *Config) {
		began = time.Now()
		cfg.Sources = map[string]EventSource{
			"failing": EventSourceFunc(func(_ context.Context, emit func(Event)) error {
				starts = append(starts, time.Since(began))
				emit(Event{Kind: PodDirty, UID: "f"})
				return broken
			}),
			"ending": EventSourceFunc(func(_ context.Context, emit func(Event)) error {
				emit(Event{Kind: PodDirty, UID: "e"})
				return nil
			}),
		}
	}, func(t *testing.T, l *Loop, h *tape, _ *script) {
		time.Sleep(100 * time.Second)
		synctest.Wait()
		s := time.Second
		require.Equal(t, []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 31 * s, 61 * s, 91 * s}, starts)
		st := l.Status()
		require.Equal(t, "ending", st.Sources[0].Name)
		require.False(t, st.Sources[0].Running)
		require.Zero(t, st.Sources[0].Failures)
		require.Equal(t, 8, st.Sources[1].Failures)
		require.ErrorIs(t, st.Sources[1].Err, broken)
		require.True(t, st.Sources[2].Running)
		require.NoError(t, l.CheckHealth())
		require.Contains(t, strings.Join(h.take(), ";"), "sync e")
	})
}

// What ignores its context is named after the timeout; Run does not hang.
func TestLoopShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l, err := New(Config{
			Handler: &tape{onSync: func() { <-release }},
			Pods:    newScript(),
			Sources: map[string]EventSource{"deaf": EventSourceFunc(func(context.Context, func(Event)) error { <-release; return nil })},
		})
		require.NoError(t, err)
		l.Emit(Event{Kind: PodDirty, UID: "a"})
		ctx, stop := context.WithCancel(t.Context())
		stopping := time.Now()
		time.AfterFunc(time.Second, stop)
		err = l.Run(ctx)
		require.ErrorContains(t, err, "handler, source deaf")
		require.Equal(t, 11*time.Second, time.Since(stopping))
		require.Error(t, l.CheckHealth())
		require.ErrorIs(t, l.Run(ctx), ErrRunning)
		close(release)
	})
}

func TestNewRefuses(t *testing.T) {
	src := EventSourceFunc(func(context.Context, func(Event)) error { return nil })
	for field, cfg := range map[string]Config{
		"Handler":           {Pods: newScript()},
		"Pods":              {Handler: &tape{}},
		"Sources[\"\"]":     {Handler: &tape{}, Pods: newScript(), Sources: map[string]EventSource{"": src}},
		"Sources[\"pods\"]": {Handler: &tape{}, Pods: newScript(), Sources: map[string]EventSource{"pods": src}},
		"Sources[\"x\"]":    {Handler: &tape{}, Pods: newScript(), Sources: map[string]EventSource{"x": nil}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, field)
	}
}

func TestKindNames(t *testing.T) {
	for k := Kind(1); k < kindEnd; k++ {
		require.NotEmpty(t, k.String())
		require.NotEqual(t, "unknown", k.String())
	}
	require.Equal(t, "unknown", Kind(0).String())
	require.Equal(t, "UNKNOWN", Op(0).String())
	require.Empty(t, Kinds(0).String())
}
