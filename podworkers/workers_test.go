package podworkers

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

func TestConfigIsChecked(t *testing.T) {
	syncer := SyncerFuncs{}
	for want, cfg := range map[string]Config{
		"Config.Syncer":          {},
		"Config.ResyncInterval":  {Syncer: syncer, ResyncInterval: -1},
		"Config.RetryBackoff":    {Syncer: syncer, RetryBackoff: -1},
		"Config.NetworkRetry":    {Syncer: syncer, NetworkRetry: -1},
		"Config.ShutdownTimeout": {Syncer: syncer, ShutdownTimeout: -1},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
	_, err := New(Config{Syncer: (*recorder)(nil)})
	require.EqualError(t, err, "podworkers: Config.Syncer is required")
}

func TestUpdatesAreChecked(t *testing.T) {
	w, err := New(Config{Syncer: SyncerFuncs{}})
	require.NoError(t, err)
	mirror := podOf("m", func(p *v1.Pod) { p.Annotations = map[string]string{podfacts.ConfigMirror: "x"} })
	for want, u := range map[string]Update{
		`Type: "destroy" is not one of create, update, sync, kill`: {Type: "destroy", Pod: podOf("a")},
		`Type: "" is not one of create, update, sync, kill`:        {},
		"Pod: is required":                               {Type: UpdateKill},
		"Pod.UID":                                        create(podOf("")),
		"Pod: is a mirror pod":                           create(mirror),
		"RuntimePod.UID":                                 orphan(""),
		"RuntimePod: the syncer is no":                   orphan("a"),
		"can only be killed":                             {Type: UpdateSync, RuntimePod: &RuntimePod{UID: "a", Name: "n", Namespace: "ns"}},
		"create of pod ns/pod- (): P":                    create(podOf("")),
		"Pod.Name: is empty":                             create(podOf("a", func(p *v1.Pod) { p.Name = "" })),
		"Pod.Namespace: is empty":                        create(podOf("a", func(p *v1.Pod) { p.Namespace = "" })),
		"RuntimePod.Name: is empty":                      {Type: UpdateKill, RuntimePod: &RuntimePod{UID: "a", Namespace: "ns"}},
		"RuntimePod.Namespace: is empty":                 {Type: UpdateKill, RuntimePod: &RuntimePod{UID: "a", Name: "n"}},
		`Kill: goes with Type "kill" only, not "update"`: {Type: UpdateUpdate, Pod: podOf("a"), Kill: &KillOptions{}},
		`RuntimePod.UID: is "b"; Pod is`:                 {Type: UpdateKill, Pod: podOf("a"), RuntimePod: &RuntimePod{UID: "b"}},
	} {
		err := w.UpdatePod(u)
		require.ErrorIs(t, err, ErrInvalidUpdate)
		require.ErrorContains(t, err, want)
	}
	require.Empty(t, w.Pods())
	both := create(podOf("both"))
	both.RuntimePod = &RuntimePod{UID: "both"}
	require.NoError(t, w.UpdatePod(both))
	require.False(t, w.State("both").RuntimeOnly, "the pod counts")
	require.ErrorContains(t, w.Kill(t.Context(), podOf("a"), KillOptions{Done: make(chan struct{})}), "Kill.Done")
	require.ErrorIs(t, w.Kill(t.Context(), nil, KillOptions{}), ErrInvalidUpdate)
}

// What is refused is not answered: nothing was stopped.
func TestRefusedKillLeavesDoneOpen(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.send(create(podOf("a")))
		done := make(chan struct{})
		err := b.UpdatePod(Update{Type: UpdateUpdate, Pod: podOf("a"), Kill: &KillOptions{Done: done}})
		require.ErrorIs(b, err, ErrInvalidUpdate)
		select {
		case <-done:
			b.Error("Done is closed while the pod runs")
		default:
		}
		b.is("a", StateSyncing)
	})
}

// A kill that times out because nobody called Run says so.
func TestKillBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(Config{Syncer: SyncerFuncs{}})
		require.NoError(t, err)
		err = w.Kill(t.Context(), podOf("a"), KillOptions{})
		require.ErrorIs(t, err, ErrKillTimeout)
		require.ErrorContains(t, err, "waits for Run")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = w.Kill(ctx, podOf("a"), KillOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "waits for Run")
	})
}

// Stopping the agent is not stopping the pods.
func TestStop(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		var cause error
		b.rec.do = func(ctx context.Context, c recorded) (bool, error) {
			err := untilCancelled(ctx)
			cause = context.Cause(ctx)
			return false, err
		}
		b.send(create(podOf("a")))
		killed := make(chan error, 1)
		b.rec.do = nil
		go func() { killed <- b.Kill(b.Context(), podOf("never", static("never")), KillOptions{}) }()
		require.NoError(b, <-killed)
		b.stop()
		synctest.Wait()
		require.Equal(b, ErrAgentStopping, cause)
		b.is("a", StateSyncing)
		b.called("a", syncPod)
		require.Equal(b, "nothing: the agent stops", b.State("a").WaitsFor)
		require.ErrorIs(b, b.UpdatePod(kill(podOf("a"))), ErrAgentStopping)
		require.ErrorIs(b, b.Kill(b.Context(), podOf("a"), KillOptions{}), ErrAgentStopping)
		b.known()
		b.called("a", syncPod)
		require.ErrorIs(b, b.Run(b.Context()), ErrAlreadyRun)
	})
}

// Calls that ignore their context are named.
func TestStopNamesTheStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w, err := New(Config{
			Syncer:          SyncerFuncs{Sync: func(context.Context, Work) (bool, error) { <-release; return false, nil }},
			OnTransition:    func(Transition) { <-release },
			ShutdownTimeout: 3 * time.Second,
		})
		require.NoError(t, err)
		require.NoError(t, w.UpdatePod(create(podOf("a"))), "accepted before Run")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		err = w.Run(ctx)
		require.ErrorIs(t, err, ErrShutdownTimeout)
		require.ErrorContains(t, err, "SyncPod of pod ns/pod-a (a)")
		require.ErrorContains(t, err, "a callback of Config")
		require.LessOrEqual(t, time.Since(begin), 64*time.Second)
		close(release)
	})
}

func TestRunWithDoneContext(t *testing.T) {
	rec := newRecorder(t)
	w, err := New(Config{Syncer: rec})
	require.NoError(t, err)
	require.NoError(t, w.UpdatePod(create(podOf("a"))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Run(ctx))
	require.Empty(t, rec.calls)
}

// lockedBuffer is written to and read at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A failure is one line that tells when it is tried again, and none when it repeats
// itself; a wait that the syncer has planned is none.
func TestFailuresAreLoggedOnce(t *testing.T) {
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	inBubble(t, Config{Logger: logger}, func(b *bubble) {
		b.rec.do = func(_ context.Context, c recorded) (bool, error) {
			switch {
			case c.uid == "fails" && c.n <= 3:
				return false, errBoom
			case c.uid == "fails" && c.n == 4:
				return false, fmt.Errorf("something else")
			case c.uid == "fails" && c.n == 6:
				return false, errBoom
			case c.uid == "waits" && c.n == 1:
				return false, RetryAt(errBoom, time.Now().Add(time.Minute))
			}
			return false, nil
		}
		b.send(create(podOf("waits")))
		require.Empty(b, log.String())
		b.send(create(podOf("fails")))
		require.Equal(b, 1, strings.Count(log.String(), "\n"), log.String())
		require.Contains(b, log.String(), `level=ERROR msg="call failed" call=SyncPod`)
		require.Contains(b, log.String(), "nextRetry=20")
		time.Sleep(25 * time.Second)
		synctest.Wait()
		require.Equal(b, 1, strings.Count(log.String(), "\n"), log.String())
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Equal(b, 3, strings.Count(log.String(), "\n"), log.String())
	})
}

// A syncer that panics, or ends its goroutine, fails like any other.
func TestSyncerThatPanics(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	inBubble(t, Config{Logger: logger}, func(b *bubble) {
		b.rec.do = func(_ context.Context, c recorded) (bool, error) {
			switch {
			case c.uid == "panics" && c.n == 1:
				panic(errBoom)
			case c.uid == "exits" && c.n == 1:
				runtime.Goexit()
			}
			return false, nil
		}
		b.send(create(podOf("panics")), create(podOf("exits")), create(podOf("fine")))
		var p *PanicError
		require.ErrorAs(b, b.State("panics").LastError, &p)
		require.ErrorIs(b, p, errBoom)
		require.Contains(b, string(p.Stack), "TestSyncerThatPanics")
		require.ErrorIs(b, b.State("exits").LastError, errGoexit)
		require.Contains(b, log.String(), "goroutine")
		b.pass(10 * time.Second)
		b.called("panics", syncPod, syncPod)
		b.called("exits", syncPod, syncPod)
		b.called("fine", syncPod)
		require.NoError(b, b.State("panics").LastError)
	})
}

// brokenError is an error that cannot be looked at, as a nil pointer in an error
// value often is.
type brokenError struct{}

func (*brokenError) Error() string { panic("no words") }

// So is an error that panics when it is looked at; nobody else notices.
func TestErrorThatPanics(t *testing.T) {
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	inBubble(t, Config{Logger: logger}, func(b *bubble) {
		b.rec.do = func(_ context.Context, c recorded) (bool, error) {
			if c.uid == "a" && c.n == 1 {
				return false, &brokenError{}
			}
			return false, nil
		}
		b.send(create(podOf("a")))
		var p *PanicError
		require.ErrorAs(b, b.State("a").LastError, &p)
		b.send(create(podOf("b")))
		b.called("b", syncPod)
		b.pass(10 * time.Second)
		b.called("a", syncPod, syncPod)
		require.Contains(b, log.String(), "no words")
	})
}

// A call that does not listen to its cancellation can be seen to be stuck.
func TestStuckCallIsVisible(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		release := make(chan struct{})
		b.rec.do = func(ctx context.Context, c recorded) (bool, error) {
			if c.kind == syncPod {
				SetStep(ctx, "waiting for godot")
				<-release
			}
			return false, nil
		}
		b.send(create(podOf("a")))
		b.pass(time.Minute)
		b.send(kill(podOf("a")))
		s := b.State("a")
		require.Equal(b, time.Now(), s.CancelledAt)
		require.Regexp(b, `TerminationRequested since .*, waits for SyncPod \(waiting for godot\) since .*, cancelled at `, s.String())
		close(release)
		synctest.Wait()
		require.Zero(b, b.State("a").CancelledAt)
		b.is("a", StateFinished)
	})
}

// The owner is asked for due pods, without locks, and may answer at once.
func TestResyncCallback(t *testing.T) {
	var w *Workers
	var pod atomic.Pointer[v1.Pod]
	var asked atomic.Int32
	var log lockedBuffer
	inBubble(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Resync: func(uid types.UID) {
		asked.Add(1)
		if err := w.UpdatePod(resync(pod.Load())); err != nil {
			t.Error(err)
		}
	}}, func(b *bubble) {
		w = b.Workers
		b.send(create(podOf("a")))
		newer := podOf("a")
		pod.Store(newer)
		b.pass(time.Minute)
		b.called("a", syncPod, syncPod)
		require.Same(b, newer, b.rec.last("a").work.Pod)
		require.EqualValues(b, 1, asked.Load())
		b.pass(9 * time.Minute)
		require.EqualValues(b, 10, asked.Load())
	})
	require.Empty(t, log.String())
}

// Transitions come in order; a callback that panics does no harm, and is named in the log.
func TestOnTransition(t *testing.T) {
	var mu sync.Mutex
	var moves []string
	var log lockedBuffer
	inBubble(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), OnTransition: func(m Transition) {
		mu.Lock()
		defer mu.Unlock()
		moves = append(moves, fmt.Sprintf("%s: %s -> %s", m.UID, m.From, m.To))
		panic("careless")
	}}, func(b *bubble) {
		b.send(create(podOf("a")))
		b.send(kill(podOf("a")))
		b.known()
	})
	require.Equal(t, []string{
		"a: Unknown -> Syncing",
		"a: Syncing -> TerminationRequested",
		"a: TerminationRequested -> Terminating",
		"a: Terminating -> Terminated",
		"a: Terminated -> Finished",
		"a: Finished -> Unknown",
	}, moves)
	require.Equal(t, len(moves), strings.Count(log.String(), "careless"), log.String())
}

// Each call is told of at its end, also one that panics or ends its goroutine; a callback
// that panics does no harm.
func TestOnCall(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	inBubble(t, Config{OnCall: func(c CallDone) {
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprintf("%s %s %s took %s", c.UID, c.Call, c.Type, c.Ended.Sub(c.Began))
		if !c.Seen.IsZero() {
			text += fmt.Sprintf(" of %s", c.Ended.Sub(c.Seen))
		}
		if c.Err != nil {
			text += ", failed"
		}
		calls = append(calls, text)
		panic("careless")
	}}, func(b *bubble) {
		b.rec.do = func(_ context.Context, c recorded) (bool, error) {
			switch {
			case c.uid == "exits" && c.n == 1:
				runtime.Goexit()
			case c.uid == "a" && c.kind == CallSyncPod && c.n == 1:
				time.Sleep(3 * time.Second)
			}
			return false, nil
		}
		b.send(create(podOf("a")))
		b.pass(time.Second)
		b.send(update(podOf("a")))
		b.pass(5 * time.Second)
		b.send(kill(podOf("a")), create(podOf("exits")))
		b.known()
	})
	require.Contains(t, calls, "exits SyncPod create took 0s of 0s, failed")
	require.Equal(t, []string{
		"a SyncPod create took 3s of 3s",
		"a SyncPod update took 0s of 2s",
		"a SyncTerminatingPod kill took 0s of 0s",
		"a SyncTerminatedPod kill took 0s of 0s",
	}, slices.DeleteFunc(calls, func(call string) bool { return strings.HasPrefix(call, "exits") }))
}

// One context serves all calls of a pod until it is cancelled, and carries the
// values of Run's context.
func TestContexts(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		var seen []context.Context
		note := func(ctx context.Context, _ Work) error { seen = append(seen, ctx); return nil }
		w, err := New(Config{Syncer: SyncerFuncs{
			Sync:        func(ctx context.Context, w Work) (bool, error) { return false, note(ctx, w) },
			Terminating: note, Terminated: note,
		}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		for _, u := range []Update{create(podOf("a")), update(podOf("a")), resync(podOf("a")), kill(podOf("a"))} {
			require.NoError(t, w.UpdatePod(u))
			synctest.Wait()
		}
		require.GreaterOrEqual(t, len(seen), 4)
		for _, c := range seen {
			require.Equal(t, "value", c.Value(key{}))
			require.Same(t, seen[0], c)
		}
		require.Error(t, seen[0].Err(), "over with the pod")
		cancel()
		require.NoError(t, <-ran)
		SetStep(t.Context(), "no call: nothing happens")
	})
}

// A step lasts as long as its call.
func TestSteps(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.rec.do = func(ctx context.Context, c recorded) (bool, error) {
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			if c.n == 1 {
				SetStep(child, "first step")
				time.Sleep(time.Second)
				SetStep(child, "second step")
			}
			time.Sleep(time.Second)
			return false, nil
		}
		begin := time.Now()
		b.send(create(podOf("a")))
		require.Equal(b, "first step", b.State("a").Step)
		b.pass(time.Second)
		require.Equal(b, "second step", b.Pods()[0].Step)
		require.Equal(b, begin.Add(time.Second), b.State("a").StepSince)
		require.Contains(b, b.State("a").String(), "waits for SyncPod (second step)")
		b.send(update(podOf("a")))
		b.pass(time.Second)
		require.Equal(b, CallSyncPod, b.State("a").Call)
		require.Empty(b, b.State("a").Step)
		b.pass(time.Second)
	})
}

func TestKill(t *testing.T) {
	var events []string
	event := func(ref v1.ObjectReference, kind, reason, _ string) {
		events = append(events, fmt.Sprint(ref.Kind, " ", ref.UID, " ", kind, " ", reason))
	}
	inBubble(t, Config{Event: event}, func(b *bubble) {
		b.rec.do = func(ctx context.Context, c recorded) (bool, error) {
			switch {
			case c.kind != terminating:
				return false, nil
			case c.uid == "stuck":
				return false, untilCancelled(ctx)
			}
			time.Sleep(time.Duration(c.work.GracePeriodSeconds) * time.Second)
			return false, nil
		}
		begin := time.Now()
		require.NoError(b, b.Kill(b.Context(), podOf("a"), KillOptions{GracePeriodSeconds: ptr(int64(2))}))
		require.Equal(b, 2*time.Second, time.Since(begin))

		begin = time.Now()
		err := b.Kill(b.Context(), podOf("stuck"), KillOptions{})
		require.ErrorIs(b, err, ErrKillTimeout)
		require.Equal(b, 45*time.Second, time.Since(begin))
		require.Equal(b, []string{"Pod stuck Warning ExceededGracePeriod"}, events)
		b.is("stuck", StateTerminating)

		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		require.ErrorIs(b, b.Kill(ctx, podOf("stuck"), KillOptions{}), context.DeadlineExceeded)
	})
	require.Equal(t, 10*time.Second, killTimeout(podOf("a", specGrace(0)), nil))
	require.Equal(t, 10*time.Second, killTimeout(&v1.Pod{}, nil))
	require.Equal(t, 90*time.Second, killTimeout(podOf("a"), ptr(int64(60))))
	require.Positive(t, killTimeout(podOf("a"), ptr(int64(math.MaxInt64))))
}

// A channel that its owner closed already does not take the process down.
func TestDoneClosedByOwner(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		done := make(chan struct{})
		close(done)
		b.send(kill(podOf("a"), KillOptions{Done: done}))
		b.is("a", StateFinished)
	})
}
