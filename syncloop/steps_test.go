package syncloop

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// manualLoop is a Loop in a bubble whose passes the test runs.
type manualLoop struct {
	*Loop
	h    *recorder
	pods *script
}

func withManualLoop(t *testing.T, use func(t *testing.T, p manualLoop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := manualLoop{h: &recorder{}, pods: newScript()}
		var err error
		p.Loop, err = New(Config{Handler: p.h, Pods: p.pods})
		require.NoError(t, err)
		use(t, p)
	})
}

func (p manualLoop) pass(ctx context.Context) []string {
	p.iterate(ctx)
	return p.h.take()
}

func (p manualLoop) deliver(ctx context.Context, source string, set ...*v1.Pod) []string {
	p.pods.put(source, set...)
	p.Emit(Event{Kind: PodsChanged, Source: source})
	return p.pass(ctx)
}

// panicOn makes each call with a prefix panic.
func (p manualLoop) panicOn(prefix string) {
	p.h.onCall = func(call string) {
		if strings.HasPrefix(call, prefix) {
			panic("no")
		}
	}
}

// After the stop of the agent the current call is the last one of its pass, for retries, too.
func TestStopEndsPass(t *testing.T) {
	for _, c := range []struct {
		again bool
		calls []string
	}{
		{false, []string{"add a,b", "add c", "sync d (pod dirty)", "cleanup"}},
		{true, []string{"add a", "add b", "add c", "sync d (pod dirty)", "cleanup"}},
	} {
		for i, last := range c.calls {
			withManualLoop(t, func(t *testing.T, p manualLoop) {
				p.pods.put("s", testPod("a", "a"), testPod("b", "b"))
				p.pods.put("t", testPod("c", "c"))
				for _, e := range []Event{{Kind: PodsChanged, Source: "s"}, {Kind: PodsChanged, Source: "t"}, {Kind: PodDirty, UID: "d"}} {
					p.Emit(e)
				}
				if c.again {
					p.panicOn("")
					p.pass(t.Context())
					time.Sleep(retryPauseMin)
				}
				p.Emit(Event{Kind: Housekeeping})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				p.h.onCall = func(call string) {
					if call == last {
						stop()
					}
				}
				require.Equal(t, c.calls[:i+1], p.pass(ctx))
			})
		}
	}
}

// After a panic a call with several pods is repeated at once for each of them; a call with one pod
// is not. The source does not count as handled, even if the set was empty.
func TestPanicIsRetriedPerPod(t *testing.T) {
	a, b := testPod("a", "a"), testPod("b", "b")
	for _, c := range []struct {
		set       []*v1.Pod
		calls     []string
		panicked  string
		stuck     int
		attempted []string
	}{
		{nil, []string{"add "}, "ADD from s panicked: no", 1, []string{"add "}},
		{[]*v1.Pod{a}, []string{"add a"}, "ADD from s: pod ns/a (a) panicked: no", 1, []string{"add a"}},
		{[]*v1.Pod{a, b}, []string{"add a,b", "add a", "add b"}, "ADD from s: pod ns/b (b) panicked: no", 2, []string{"add a", "add b"}},
	} {
		withManualLoop(t, func(t *testing.T, p manualLoop) {
			p.panicOn("add")
			require.Equal(t, c.calls, p.deliver(t.Context(), "s", c.set...))
			require.EqualError(t, p.Status().LastPanic, c.panicked)
			var panicked *PanicError
			require.ErrorAs(t, p.Status().LastPanic, &panicked)
			require.Contains(t, string(panicked.Stack), "panicOn")
			require.Equal(t, c.stuck, p.Status().Stuck)
			require.Empty(t, p.pods.handled)
			p.panicOn("nothing")
			time.Sleep(retryPauseMin)
			require.Equal(t, c.attempted, p.pass(t.Context()))
			require.Zero(t, p.Status().Stuck)
			require.Equal(t, []string{"s"}, p.pods.handled)
		})
	}
}

// A pod on which the handler panicked waits for its next attempt, even if its source changes.
func TestEventDoesNotHastenRetry(t *testing.T) {
	withManualLoop(t, func(t *testing.T, p manualLoop) {
		p.panicOn("add")
		p.deliver(t.Context(), "s", testPod("a", "a"))
		p.panicOn("nothing")
		require.Equal(t, []string{"add b"}, p.deliver(t.Context(), "s", testPod("a", "a", labelled), testPod("b", "b")))
		time.Sleep(retryPauseMin)
		require.Equal(t, []string{"add a"}, p.pass(t.Context()))
	})
}

// A pod that reuses a UID is passed only after the removal of its predecessor succeeded.
func TestRemovalPrecedesReuseOfUID(t *testing.T) {
	withManualLoop(t, func(t *testing.T, p manualLoop) {
		p.deliver(t.Context(), "s", testPod("a", "1"))
		p.panicOn("remove")
		require.Equal(t, []string{"remove a"}, p.deliver(t.Context(), "s", testPod("b", "1")))
		time.Sleep(retryPauseMin)
		require.Equal(t, []string{"remove a"}, p.pass(t.Context()))
		p.panicOn("nothing")
		time.Sleep(2 * retryPauseMin)
		require.Equal(t, []string{"remove a", "add b"}, p.pass(t.Context()))
	})
}

// The reasons of a sync are kept until it succeeds.
func TestKindsAreKeptUntilSuccess(t *testing.T) {
	withManualLoop(t, func(t *testing.T, p manualLoop) {
		p.panicOn("sync")
		for _, kind := range []Kind{ContainerDied, PodDirty} {
			p.Emit(Event{Kind: kind, UID: "a"})
			p.pass(t.Context())
		}
		p.panicOn("nothing")
		time.Sleep(retryPauseMin)
		require.Equal(t, []string{"sync a (" + Kinds(0).With(ContainerDied).With(PodDirty).String() + ")"}, p.pass(t.Context()))
	})
}
