package podworkers_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

func TestConfigIsChecked(t *testing.T) {
	syncer := podworkers.SyncerFuncs{}
	for want, cfg := range map[string]podworkers.Config{
		"Config.Syncer":                         {},
		"podworkers: Config.Syncer is required": {Syncer: (*lamp)(nil)},
		"Config.ResyncInterval":                 {Syncer: syncer, ResyncInterval: -1},
		"Config.RetryBackoff":                   {Syncer: syncer, RetryBackoff: -1},
		"Config.ShutdownTimeout":                {Syncer: syncer, ShutdownTimeout: -1},
	} {
		_, err := podworkers.New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// Invalid updates are refused. A refused kill leaves Done open, because no pod was stopped.
func TestUpdatesAreChecked(t *testing.T) {
	w, err := podworkers.New(podworkers.Config{Syncer: podworkers.SyncerFuncs{}})
	require.NoError(t, err)
	mirror, nameless, homeless, done := podOf("m"), podOf("a"), podOf("a"), make(chan struct{})
	mirror.Annotations = map[string]string{podfacts.ConfigMirror: "x"}
	nameless.Name, homeless.Namespace = "", ""
	orphan := func(uid types.UID, name, namespace string) *podworkers.RuntimePod {
		return &podworkers.RuntimePod{UID: uid, Name: name, Namespace: namespace}
	}
	for want, u := range map[string]podworkers.Update{
		`Type: "destroy" is not one of create, update, sync, kill`: {Type: "destroy", Pod: podOf("a")},
		`Type: "" is not one of create, update, sync, kill`:        {},
		"Pod: is required":                                  {Type: kill},
		"create of pod default/ (): Pod.UID":                {Type: create, Pod: podOf("")},
		"Pod: is a mirror pod":                              {Type: create, Pod: mirror},
		"RuntimePod.UID":                                    {Type: kill, RuntimePod: orphan("", "n", "ns")},
		"RuntimePod: the syncer does not implement":         {Type: kill, RuntimePod: orphan("a", "n", "ns")},
		"can only be killed":                                {Type: podworkers.UpdateSync, RuntimePod: orphan("a", "n", "ns")},
		"Pod.Name: is empty":                                {Type: create, Pod: nameless},
		"Pod.Namespace: is empty":                           {Type: create, Pod: homeless},
		"RuntimePod.Name: is empty":                         {Type: kill, RuntimePod: orphan("a", "", "ns")},
		"RuntimePod.Namespace: is empty":                    {Type: kill, RuntimePod: orphan("a", "n", "")},
		`Kill: allowed only with Type "kill", not "update"`: {Type: update, Pod: podOf("a"), Kill: &podworkers.KillOptions{Done: done}},
		`RuntimePod.UID: "b" differs from Pod.UID`:          {Type: kill, Pod: podOf("a"), RuntimePod: orphan("b", "", "")},
	} {
		err := w.UpdatePod(u)
		require.ErrorIs(t, err, podworkers.ErrInvalidUpdate)
		require.ErrorContains(t, err, want)
	}
	require.Empty(t, w.Pods())
	select {
	case <-done:
		t.Error("Done of a refused kill is closed")
	default:
	}
	require.NoError(t, w.UpdatePod(podworkers.Update{Type: create, Pod: podOf("both"), RuntimePod: orphan("both", "", "")}))
	require.False(t, w.State("both").RuntimeOnly, "the pod counts")
	require.ErrorContains(t, w.Kill(t.Context(), podOf("a"), podworkers.KillOptions{Done: make(chan struct{})}), "Kill.Done")
	require.ErrorIs(t, w.Kill(t.Context(), nil, podworkers.KillOptions{}), podworkers.ErrInvalidUpdate)
}

// The error of a kill that times out before Run mentions the missing Run.
func TestKillBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := podworkers.New(podworkers.Config{Syncer: podworkers.SyncerFuncs{}})
		require.NoError(t, err)
		err = w.Kill(t.Context(), podOf("a"), podworkers.KillOptions{})
		require.ErrorIs(t, err, podworkers.ErrKillTimeout)
		require.ErrorContains(t, err, "Run has not started")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = w.Kill(ctx, podOf("a"), podworkers.KillOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "Run has not started")
	})
}

// Stopping the agent is not stopping the pods.
func TestStop(t *testing.T) {
	inBubble(t, podworkers.Config{}, func(b *bubble) {
		var cause error
		b.rec.On("a", syncPod, func(ctx context.Context, w podworkers.Work) (bool, error) {
			defer func() { cause = context.Cause(ctx) }()
			return podworkerstest.UntilCancelled(ctx, w)
		})
		b.send(create, "a")
		b.stop()
		synctest.Wait()
		require.Equal(b, podworkers.ErrAgentStopping, cause)
		require.ErrorIs(b, b.Kill(b.Context(), podOf("a"), podworkers.KillOptions{}), podworkers.ErrAgentStopping)
		b.is("a", podworkers.StateSyncing)
		b.known()
		b.called("a", syncPod)
		require.ErrorIs(b, b.Run(b.Context()), podworkers.ErrAlreadyRun)
	})
}

// Run's error lists calls that ignore their context.
func TestStopNamesHungCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w, err := podworkers.New(podworkers.Config{
			Syncer:          podworkers.SyncerFuncs{Sync: func(context.Context, podworkers.Work) (bool, error) { <-release; return false, nil }},
			OnTransition:    func(podworkers.Transition) { <-release },
			ShutdownTimeout: 3 * time.Second,
		})
		require.NoError(t, err)
		require.NoError(t, w.UpdatePod(podworkers.Update{Type: create, Pod: podOf("a")}), "accepted before Run")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		err = w.Run(ctx)
		require.ErrorIs(t, err, podworkers.ErrShutdownTimeout)
		require.ErrorContains(t, err, "SyncPod of pod default/a (a)")
		require.ErrorContains(t, err, "a callback of Config")
		require.LessOrEqual(t, time.Since(begin), 64*time.Second)
		close(release)
	})
}

func TestRunWithDoneContext(t *testing.T) {
	cfg := podworkers.Config{}
	rec := podworkerstest.Record(&cfg)
	w, err := podworkers.New(cfg)
	require.NoError(t, err)
	require.NoError(t, w.UpdatePod(podworkers.Update{Type: create, Pod: podOf("a")}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Run(ctx))
	require.Empty(t, rec.Calls("a"))
}

// A failure is logged once with the time of the next attempt, and not again while it repeats. A
// back-off of the syncer is not logged.
func TestFailuresAreLoggedOnce(t *testing.T) {
	inBubble(t, podworkers.Config{}, func(b *bubble) {
		boom := podworkerstest.Fail(errBoom)
		b.rec.On("fails", syncPod, boom, boom, boom, podworkerstest.Fail(errors.New("something else")), succeed, boom, succeed)
		b.rec.On("waits", syncPod, podworkerstest.Fail(podworkers.RetryAt(errBoom, time.Now().Add(time.Minute))), succeed)
		b.send(create, "waits")
		require.Empty(b, b.log.String())
		lines := func(want int) {
			b.Helper()
			require.Equal(b, want, strings.Count(b.log.String(), "\n"), b.log.String())
		}
		b.send(create, "fails")
		lines(1)
		require.Contains(b, b.log.String(), `level=ERROR msg="call failed" call=SyncPod`)
		require.Contains(b, b.log.String(), "nextRetry=20")
		b.pass(25 * time.Second)
		lines(1)
		b.pass(5 * time.Minute)
		lines(3)
	})
}

// brokenError is an error whose Error panics, like many nil pointers in error values.
type brokenError struct{}

func (*brokenError) Error() string { panic("no words") }

// A syncer that panics, or returns an error that panics, fails like any other. Script panic.txt
// covers runtime.Goexit.
func TestSyncerThatPanics(t *testing.T) {
	inBubble(t, podworkers.Config{}, func(b *bubble) {
		b.rec.On("panics", syncPod, func(context.Context, podworkers.Work) (bool, error) { panic(errBoom) }, succeed)
		b.rec.On("broken", syncPod, podworkerstest.Fail(&brokenError{}), succeed)
		b.send(create, "panics", "broken", "fine")
		var p *podworkers.PanicError
		require.ErrorAs(b, b.State("broken").LastError, &p)
		require.ErrorAs(b, b.State("panics").LastError, &p)
		require.ErrorIs(b, p, errBoom)
		require.Contains(b, string(p.Stack), "TestSyncerThatPanics")
		require.Contains(b, b.log.String(), "goroutine")
		require.Contains(b, b.log.String(), "no words")
		b.pass(10 * time.Second)
		b.called("broken", syncPod, syncPod)
		b.called("panics", syncPod, syncPod)
		b.called("fine", syncPod)
		require.NoError(b, b.State("panics").LastError)
	})
}

// OnDue is called without locks and may call UpdatePod.
func TestResyncCallback(t *testing.T) {
	var w *podworkers.Workers
	var asked atomic.Int32
	newer := podOf("a")
	inBubble(t, podworkers.Config{OnDue: func(types.UID) {
		asked.Add(1)
		if err := w.UpdatePod(podworkers.Update{Type: podworkers.UpdateSync, Pod: newer}); err != nil {
			t.Error(err)
		}
	}}, func(b *bubble) {
		w = b.Workers
		b.send(create, "a")
		b.pass(time.Minute)
		b.called("a", syncPod, syncPod)
		require.Same(b, newer, b.State("a").Pod)
		require.EqualValues(b, 1, asked.Load())
		b.pass(9 * time.Minute)
		require.EqualValues(b, 10, asked.Load())
		require.Empty(b, b.log.String())
	})
}

// Transitions arrive in order. A callback that panics is logged and has no other effect.
func TestOnTransition(t *testing.T) {
	var mu sync.Mutex
	var moves []string
	inBubble(t, podworkers.Config{OnTransition: func(m podworkers.Transition) {
		mu.Lock()
		defer mu.Unlock()
		moves = append(moves, fmt.Sprintf("%s: %s -> %s", m.UID, m.From, m.To))
		panic("careless")
	}}, func(b *bubble) {
		b.send(create, "a")
		b.send(kill, "a")
		b.known()
		require.Equal(b, []string{
			"a: Unknown -> Syncing",
			"a: Syncing -> TerminationRequested",
			"a: TerminationRequested -> Terminating",
			"a: Terminating -> Terminated",
			"a: Terminated -> Finished",
			"a: Finished -> Unknown",
		}, moves)
		require.Equal(b, len(moves), strings.Count(b.log.String(), "careless"), b.log.String())
	})
}

// OnCall is called at the end of each call, also after runtime.Goexit. A callback that panics
// has no effect on the call.
func TestOnCall(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	inBubble(t, podworkers.Config{OnCall: func(c podworkers.CallDone) {
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
		b.rec.On("exits", syncPod, exit, succeed)
		b.rec.On("a", syncPod, podworkerstest.Take(3*time.Second, succeed), succeed)
		b.send(create, "a")
		b.pass(time.Second)
		b.send(update, "a")
		b.pass(5 * time.Second)
		b.send(kill, "a")
		b.send(create, "exits")
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

// exit is a call that ends its goroutine.
func exit(context.Context, podworkers.Work) (bool, error) {
	runtime.Goexit()
	return false, nil
}

// All calls of a pod have one context until it is cancelled. It has the values of Run's context.
func TestContexts(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		var seen []context.Context
		note := func(ctx context.Context, _ podworkers.Work) error { seen = append(seen, ctx); return nil }
		w, err := podworkers.New(podworkers.Config{Syncer: podworkers.SyncerFuncs{
			Sync:        func(ctx context.Context, w podworkers.Work) (bool, error) { return false, note(ctx, w) },
			Terminating: note, Terminated: note,
		}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		for _, typ := range []podworkers.UpdateType{create, update, podworkers.UpdateSync, kill} {
			require.NoError(t, w.UpdatePod(podworkers.Update{Type: typ, Pod: podOf("a")}))
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
		podworkers.SetStep(t.Context(), "no running call: no effect")
	})
}

// A step ends with its call.
func TestSteps(t *testing.T) {
	inBubble(t, podworkers.Config{}, func(b *bubble) {
		b.rec.On("a", syncPod, func(ctx context.Context, _ podworkers.Work) (bool, error) {
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			podworkers.SetStep(child, "first step")
			time.Sleep(time.Second)
			podworkers.SetStep(child, "second step")
			time.Sleep(time.Second)
			return false, nil
		}, podworkerstest.Take(time.Second, succeed))
		begin := time.Now()
		b.send(create, "a")
		require.Equal(b, "first step", b.State("a").Step)
		b.pass(time.Second)
		require.Equal(b, "second step", b.Pods()[0].Step)
		require.Equal(b, begin.Add(time.Second), b.State("a").StepSince)
		require.Contains(b, b.State("a").String(), "waits for SyncPod (second step)")
		b.send(update, "a")
		b.pass(time.Second)
		require.Equal(b, syncPod, b.State("a").Call)
		require.Empty(b, b.State("a").Step)
		b.pass(time.Second)
	})
}

func TestKill(t *testing.T) {
	var events []string
	event := func(ref v1.ObjectReference, kind, reason, _ string) {
		events = append(events, fmt.Sprint(ref.Kind, " ", ref.UID, " ", kind, " ", reason))
	}
	inBubble(t, podworkers.Config{Event: event}, func(b *bubble) {
		b.rec.On("stuck", terminating, podworkerstest.UntilCancelled)
		b.rec.On("a", terminating, podworkerstest.TakeGrace)
		begin := time.Now()
		require.NoError(b, b.Kill(b.Context(), podOf("a"), podworkers.KillOptions{GracePeriodSeconds: new(int64(2))}))
		require.Equal(b, 2*time.Second, time.Since(begin))

		begin = time.Now()
		err := b.Kill(b.Context(), podOf("stuck"), podworkers.KillOptions{})
		require.ErrorIs(b, err, podworkers.ErrKillTimeout)
		require.Equal(b, 45*time.Second, time.Since(begin))
		require.Equal(b, []string{"Pod stuck Warning ExceededGracePeriod"}, events)
		b.is("stuck", podworkers.StateTerminating)

		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		require.ErrorIs(b, b.Kill(ctx, podOf("stuck"), podworkers.KillOptions{}), context.DeadlineExceeded)
	})
}

// D1: a channel that two kills share is closed once.
func TestDoneOfTwoKills(t *testing.T) {
	inBubble(t, podworkers.Config{}, func(b *bubble) {
		b.rec.On("a", terminating, podworkerstest.Take(time.Second, succeed))
		done := make(chan struct{})
		for range 2 {
			b.update(podworkers.Update{Type: kill, Pod: podOf("a"), Kill: &podworkers.KillOptions{Done: done}})
		}
		<-done
		require.Empty(b, b.log.String())
	})
}

// A channel that its owner closed does not crash the process.
func TestDoneClosedByOwner(t *testing.T) {
	inBubble(t, podworkers.Config{}, func(b *bubble) {
		done := make(chan struct{})
		close(done)
		b.update(podworkers.Update{Type: kill, Pod: podOf("a"), Kill: &podworkers.KillOptions{Done: done}})
		b.is("a", podworkers.StateFinished)
	})
}
