package syncloop

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// L12: some kinds of events make a pod sync, and some have no effect.
func TestLoopEvents(t *testing.T) {
	bubble(t, nil, func(t *testing.T, l *Loop, h *recorder, _ *script) {
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

// While the handler is busy, emitting neither blocks nor loses events: they become one call.
func TestLoopCoalesces(t *testing.T) {
	release := make(chan struct{})
	bubble(t, func(cfg *Config) {
		release = make(chan struct{})
		cfg.Handler.(*recorder).onSync = func() { <-release }
	}, func(t *testing.T, l *Loop, h *recorder, pods *script) {
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
		pods.put("s", testPod("x", "x"))
		st := l.Status()
		require.Equal(t, 2, st.WaitingPods)
		require.Equal(t, 1, st.WaitingSources)
		require.Equal(t, "syncing pod first", st.Doing)
		close(release)
		synctest.Wait()
		// The housekeeping that became due during the sync belongs to its pass.
		require.Equal(t, []string{"cleanup", "add x", "sync a (container died, sync due)", "sync b (pod dirty)"}, h.take())
		require.Equal(t, []string{"s"}, pods.handled)
	})
}

func TestLoopOperations(t *testing.T) {
	bubble(t, nil, func(t *testing.T, l *Loop, h *recorder, pods *script) {
		pods.put("b", testPod("r", "r"), testPod("u", "u"), testPod("d", "d"), testPod("c", "c"), testPod("same", "same"))
		l.Emit(Event{Kind: PodsChanged, Source: "b"})
		l.Emit(Event{Kind: PodsChanged, Source: "without a set"})
		synctest.Wait()
		require.Equal(t, []string{"add r,u,d,c,same"}, h.take())
		pods.put("b", testPod("same", "same"), testPod("c", "c", running), testPod("d", "d", deleted), testPod("u", "u", labelled), testPod("n", "n"))
		l.Emit(Event{Kind: PodsChanged, Source: "b"})
		synctest.Wait()
		require.Equal(t, []string{"remove r", "add n", "update u", "update d", "reconcile c"}, h.take())
		pods.put("a")
		for _, want := range [][]string{{"add "}, nil} {
			l.Emit(Event{Kind: PodsChanged, Source: "a"})
			l.Emit(Event{Kind: PodsChanged, Source: "b"})
			synctest.Wait()
			require.Equal(t, want, h.take(), "an unchanged set is not handled again")
		}
	})
}

// CheckHealth fails before Run and after its end (see L13.txt).
func TestLoopHealth(t *testing.T) {
	var l *Loop
	bubble(t, nil, func(t *testing.T, running *Loop, _ *recorder, _ *script) { l = running })
	require.ErrorContains(t, l.CheckHealth(), "ended")
	idle, err := New(Config{Handler: &recorder{}, Pods: newScript()})
	require.NoError(t, err)
	require.EqualError(t, idle.CheckHealth(), "sync loop has not started")
}

// Any hanging call makes CheckHealth fail.
func TestLoopHangs(t *testing.T) {
	for what, edit := range map[string]func(*Config, func()){
		"checking the health of the runtime": func(cfg *Config, hang func()) { cfg.Health = func() error { hang(); return nil } },
		"reading the pods of s":              func(cfg *Config, hang func()) { cfg.Pods = hangingPods{newScript(), hang} },
		"syncing pod a":                      func(cfg *Config, hang func()) { cfg.Handler.(*recorder).onSync = hang },
		"housekeeping": func(cfg *Config, hang func()) {
			cfg.Handler.(*recorder).onClean = func(context.Context) error { hang(); return nil }
		},
	} {
		t.Run(what, func(t *testing.T) {
			var release chan struct{}
			bubble(t, func(cfg *Config) {
				release = make(chan struct{})
				edit(cfg, func() { <-release })
			}, func(t *testing.T, l *Loop, _ *recorder, _ *script) {
				l.Emit(Event{Kind: PodsChanged, Source: map[bool]string{true: "s"}[what == "reading the pods of s"]})
				l.Emit(Event{Kind: PodDirty, UID: "a"})
				l.Emit(Event{Kind: Housekeeping})
				time.Sleep(5*time.Minute + time.Second)
				require.ErrorContains(t, l.CheckHealth(), what+" has been running for 5m1s")
				close(release)
				synctest.Wait()
				require.NoError(t, l.CheckHealth())
			})
		})
	}
}

// hangingPods is a source of pods that hangs.
type hangingPods struct {
	*script
	hang func()
}

func (s hangingPods) Pods(source string) ([]*v1.Pod, bool) {
	s.hang()
	return s.script.Pods(source)
}

func TestLoopHousekeeping(t *testing.T) {
	var fail atomic.Bool
	failure := errors.New("broken step")
	bubble(t, func(cfg *Config) {
		cfg.HousekeepingPeriod = 0
		cfg.Handler.(*recorder).onClean = func(context.Context) error {
			if fail.Load() {
				return failure
			}
			return nil
		}
	}, func(t *testing.T, l *Loop, h *recorder, _ *script) {
		fail.Store(true)
		time.Sleep(11 * time.Second)
		require.InDelta(t, 5, len(h.take()), 1)
		require.ErrorIs(t, l.Status().HousekeepingErr, failure)
		fail.Store(false)
		time.Sleep(4 * time.Second)
		require.NoError(t, l.Status().HousekeepingErr)
	})
}

// A failed source runs again, with growing pauses. A source that ends does not. Neither ends the
// loop.
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
			"inbox": &Inbox{},
		}
	}, func(t *testing.T, l *Loop, h *recorder, _ *script) {
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

// Parts that ignore their context are named after the timeout; Run does not hang.
func TestLoopShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l, err := New(Config{
			Handler: &recorder{onSync: func() { <-release }},
			Pods:    newScript(),
			Sources: map[string]EventSource{"blocked": EventSourceFunc(func(context.Context, func(Event)) error { <-release; return nil })},
		})
		require.NoError(t, err)
		l.Emit(Event{Kind: PodDirty, UID: "a"})
		ctx, stop := context.WithCancel(t.Context())
		stopping := time.Now()
		time.AfterFunc(time.Second, stop)
		err = l.Run(ctx)
		require.ErrorContains(t, err, "handler, source blocked")
		require.Equal(t, 11*time.Second, time.Since(stopping))
		require.Error(t, l.CheckHealth())
		require.ErrorIs(t, l.Run(ctx), ErrAlreadyRun)
		close(release)
	})
}

func TestNewRefuses(t *testing.T) {
	src := EventSourceFunc(func(context.Context, func(Event)) error { return nil })
	for field, cfg := range map[string]Config{
		"Handler":         {Pods: newScript()},
		"Pods":            {Handler: &recorder{}},
		"Sources[\"\"]":   {Handler: &recorder{}, Pods: newScript(), Sources: map[string]EventSource{"": src}},
		"ShutdownTimeout": {Handler: &recorder{}, Pods: newScript(), ShutdownTimeout: -1},
		"Sources[\"x\"]":  {Handler: &recorder{}, Pods: newScript(), Sources: map[string]EventSource{"x": nil}},
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
