package syncloop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// After a panic the handler gets the failed operation or a stronger one, independently of later
// changes of the set.
func TestRepeat(t *testing.T) {
	passed := testPod("p", "p")
	newer := map[string]*v1.Pod{
		"": nil, "same": testPod("p", "p"), "status": testPod("p", "p", running), "changed": testPod("p", "p", version("2")),
		"deleted": testPod("p", "p", deleted), "renamed": testPod("q", "p"),
	}
	for failed, want := range map[Op]map[string]string{
		OpAdd:       {"": "REMOVE", "same": "ADD", "status": "ADD", "changed": "ADD", "deleted": "ADD", "renamed": "REMOVE ADD"},
		OpUpdate:    {"": "REMOVE", "same": "UPDATE", "status": "UPDATE", "changed": "UPDATE", "deleted": "DELETE", "renamed": "REMOVE ADD"},
		OpDelete:    {"": "REMOVE", "same": "DELETE", "status": "DELETE", "changed": "DELETE", "deleted": "DELETE", "renamed": "REMOVE ADD"},
		OpReconcile: {"": "REMOVE", "same": "RECONCILE", "status": "RECONCILE", "changed": "UPDATE", "deleted": "DELETE", "renamed": "REMOVE ADD"},
		OpRemove:    {"": "REMOVE", "same": "REMOVE ADD", "status": "REMOVE ADD", "changed": "REMOVE ADD", "renamed": "REMOVE ADD"},
	} {
		for to, ops := range want {
			set := newHandledSet()
			set.record(Change{Op: OpAdd, Pods: []*v1.Pod{passed}}, true)
			set.record(Change{Op: failed, Pods: []*v1.Pod{passed}}, false)
			var got []string
			for _, c := range set.repeat("p", newer[to]) {
				got = append(got, c.Op.String())
				require.Equal(t, map[bool]*v1.Pod{true: passed, false: newer[to]}[c.Op == OpRemove], c.Pods[0])
				set.record(c, true)
			}
			require.Equal(t, ops, strings.Join(got, " "), "%s failed, then %s", failed, to)
			require.Empty(t, set.failed)
			require.Equal(t, newer[to], set.passed["p"])
		}
	}
}

// The pause between attempts grows up to a bound. After a success without remaining failures it is
// reset.
func TestRetryPauses(t *testing.T) {
	now, r := time.Unix(1000, 0), newRetries()
	attempt := func() time.Duration {
		r.attempted(now)
		return r.at.Sub(now)
	}
	r.sources["s"] = true
	for _, want := range []time.Duration{2, 4, 8, 16, 30, 30} {
		require.Equal(t, want*time.Second, attempt())
	}
	delete(r.sources, "s")
	attempt()
	require.Zero(t, r.at)
	require.False(t, r.due(now))
	r.syncs["p"] = 0
	r.plan(now)
	require.Equal(t, now.Add(retryPauseMin), r.at)
	require.Equal(t, 2*retryPauseMin, attempt())
}

// panickingPods is a source of pods that panics.
type panickingPods struct {
	*script
	panics int
}

func (s *panickingPods) Pods(source string) ([]*v1.Pod, bool) {
	if s.panics--; s.panics >= 0 {
		panic(errors.New("cannot read pods"))
	}
	return s.script.Pods(source)
}

// The Loop survives panics of its other callbacks.
func TestLoopSurvivesPanics(t *testing.T) {
	broken := errors.New("broken")
	var pods *panickingPods
	calls := 0
	bubble(t, func(cfg *Config) {
		calls = 0
		pods = &panickingPods{script: cfg.Pods.(*script), panics: 2}
		cfg.Pods = pods
		cfg.HousekeepingPeriod = time.Second
		cfg.Health = func() error {
			if calls++; calls == 1 {
				panic(broken)
			}
			return nil
		}
		cfg.Handler.(*recorder).onClean = func(context.Context) error { panic(broken) }
		cfg.Sources = map[string]EventSource{"probes": EventSourceFunc(func(context.Context, func(Event)) error { panic(broken) })}
	}, func(t *testing.T, l *Loop, h *recorder, _ *script) {
		require.ErrorIs(t, l.Status().Paused, broken)
		require.EqualError(t, l.Status().Sources[0].Err, "event source probes panicked: broken")
		pods.put("s", testPod("a", "a"))
		l.Emit(Event{Kind: PodsChanged, Source: "s"})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		got := h.take()
		require.Equal(t, 1, len(slices.DeleteFunc(slices.Clone(got), func(c string) bool { return c == "cleanup" })), "%v", got)
		require.Contains(t, got, "add a")
		require.Contains(t, got, "cleanup")
		require.ErrorIs(t, l.Status().HousekeepingErr, broken)
		require.Greater(t, l.Status().Sources[0].Failures, 3)
		require.Equal(t, []string{"s"}, pods.handled)
		require.NoError(t, l.CheckHealth())
	})
}
