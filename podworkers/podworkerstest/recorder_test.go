package podworkerstest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded runs workers with a syncer and a Recorder in a bubble.
func recorded(t *testing.T, syncer podworkers.PodSyncer, f func(t *testing.T, w *podworkers.Workers, rec *podworkerstest.Recorder)) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		cfg := podworkers.Config{Syncer: syncer, OnTrace: func(podworkers.TraceEvent) { told++ }}
		rec := podworkerstest.Record(&cfg)
		w, err := podworkers.New(cfg)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		synctest.Wait()
		f(t, w, rec)
		stop()
		require.NoError(t, <-ran)
		require.Len(t, rec.Trace(), told, "an earlier OnTrace is still called")
	})
}

func pod() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", Name: "a", Namespace: "default"}}
}

func send(t *testing.T, w *podworkers.Workers, typ podworkers.UpdateType) {
	require.NoError(t, w.UpdatePod(podworkers.Update{Type: typ, Pod: pod()}))
	synctest.Wait()
}

// Outcomes replace calls in order; afterwards the syncer is called again.
func TestOutcomes(t *testing.T) {
	syncs := 0
	syncer := podworkers.SyncerFuncs{Sync: func(context.Context, podworkers.Work) (bool, error) { syncs++; return false, nil }}
	recorded(t, syncer, func(t *testing.T, w *podworkers.Workers, rec *podworkerstest.Recorder) {
		boom := errors.New("boom")
		rec.On("", podworkers.CallSyncPod, podworkerstest.UntilCancelled)
		rec.On("a", podworkers.CallSyncPod, podworkerstest.Fail(boom), podworkerstest.Take(time.Second, podworkerstest.Fail(boom)))
		send(t, w, podworkers.UpdateCreate)
		require.ErrorIs(t, w.State("a").LastError, boom)
		for range 3 {
			send(t, w, podworkers.UpdateSync)
			require.Equal(t, podworkers.CallSyncPod, w.State("a").Call)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, podworkers.CallNone, w.State("a").Call)
		}
		require.Zero(t, syncs)
		rec.On("a", podworkers.CallSyncPod)
		rec.On("", podworkers.CallSyncPod)
		send(t, w, podworkers.UpdateSync)
		require.Equal(t, 1, syncs)
		require.NoError(t, rec.Check(w))
		require.Contains(t, rec.Trace().String(), "0s       create a\n0s         a: Unknown -> Syncing\n0s         a: SyncPod begins\n0s       a: SyncPod ends: boom\n")
	})
}

// CancelLimit applies to the syncer, not to outcomes.
func TestNoLimitForOutcomes(t *testing.T) {
	recorded(t, nil, func(t *testing.T, w *podworkers.Workers, rec *podworkerstest.Recorder) {
		rec.On("a", podworkers.CallSyncPod, func(context.Context, podworkers.Work) (bool, error) { time.Sleep(time.Hour); return false, nil })
		send(t, w, podworkers.UpdateCreate)
		send(t, w, podworkers.UpdateKill)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.NoError(t, rec.Check(w))
	})
}

// A syncer that ignores its cancelled context is reported, also with the default limit.
func TestCancelLimit(t *testing.T) {
	const unset = -1
	for limit, broken := range map[time.Duration]bool{time.Second: true, time.Minute: false, 0: false, unset: true} {
		deaf := func(context.Context, podworkers.Work) (bool, error) { time.Sleep(11 * time.Second); return false, nil }
		recorded(t, podworkers.SyncerFuncs{Sync: deaf}, func(t *testing.T, w *podworkers.Workers, rec *podworkerstest.Recorder) {
			if limit != unset {
				rec.CancelLimit(limit)
			}
			send(t, w, podworkers.UpdateCreate)
			send(t, w, podworkers.UpdateKill)
			time.Sleep(time.Minute)
			var v podworkerstest.Violation
			require.Equal(t, broken, errors.As(rec.Check(w), &v))
			if broken {
				require.Equal(t, "1.7", v.Rule)
				require.EqualValues(t, "a", v.UID)
				require.ErrorContains(t, v, "SyncPod returned 11s after it was cancelled")
			}
		})
	}
}

// A Recorder implements OrphanSyncer only if its syncer does.
func TestOrphansAreUpToTheSyncer(t *testing.T) {
	for _, syncer := range []podworkers.PodSyncer{nil, podworkers.SyncerFuncs{}} {
		recorded(t, syncer, func(t *testing.T, w *podworkers.Workers, rec *podworkerstest.Recorder) {
			err := w.UpdatePod(podworkers.Update{Type: podworkers.UpdateKill, RuntimePod: &podworkers.RuntimePod{UID: "a", Name: "a", Namespace: "ns"}})
			synctest.Wait()
			if syncer != nil {
				require.ErrorIs(t, err, podworkers.ErrInvalidUpdate)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []podworkers.Call{podworkers.CallSyncTerminatingOrphan}, rec.Calls("a"))
			require.NoError(t, rec.Check(w))
		})
	}
}

// Check works in real time while many calls run.
func TestCheckMeanwhile(t *testing.T) {
	cfg := podworkers.Config{}
	rec := podworkerstest.Record(&cfg)
	rec.On("", podworkers.CallSyncPod, podworkerstest.Take(time.Millisecond, podworkerstest.Succeed))
	w, err := podworkers.New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	for i := range 300 {
		p := pod()
		p.UID = types.UID(fmt.Sprint(i % 30))
		require.NoError(t, w.UpdatePod(podworkers.Update{Type: podworkers.UpdateUpdate, Pod: p}))
		if i%10 == 0 {
			w.SyncKnownPods(nil)
		}
		require.NoError(t, rec.Check(w))
	}
	stop()
	require.NoError(t, <-ran)
	require.NoError(t, rec.Check(nil))
}

// Each violation has a rule with an explanation.
func TestRules(t *testing.T) {
	require.Len(t, podworkerstest.Rules(), 35)
	require.Equal(t, "termination is sticky, and has a reason", podworkerstest.Meaning("INV-5"))
	require.Equal(t, "section 9.9 of the pod lifecycle", podworkerstest.Meaning("9.9"))
}

// A Checker reports impossible events.
func TestCheckerReportsImpossibleEvents(t *testing.T) {
	for _, tc := range []struct {
		rule string
		e    podworkers.TraceEvent
	}{
		{"INV-9", podworkers.TraceEvent{Kind: podworkers.TraceStart, Call: podworkers.CallSyncPod, UID: "x"}},
		{"INV-9", podworkers.TraceEvent{Kind: podworkers.TraceState, UID: "x"}},
		{"INV-1", podworkers.TraceEvent{Kind: podworkers.TraceEnd, UID: "x"}},
		{"1.7", podworkers.TraceEvent{Kind: podworkers.TraceCancel, UID: "x"}},
		{"INV-14", podworkers.TraceEvent{Kind: podworkers.TraceDone, Done: make(chan struct{})}},
	} {
		c := podworkerstest.NewChecker()
		c.Event(tc.e)
		var v podworkerstest.Violation
		require.ErrorAs(t, c.Err(), &v)
		require.Equal(t, tc.rule, v.Rule)
		require.Len(t, c.Clone().Violations(), 1)
	}
}
