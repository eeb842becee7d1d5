package writer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
)

// However short a sink was behind, that is told; that it was not is not.
func TestSyncedIsTold(t *testing.T) {
	var told []time.Duration
	s := &target{name: "api", w: &Writer{}}
	s.synced(1)
	s.w.cfg.Metrics.Synced = func(_ string, behind time.Duration) { told = append(told, behind) }
	for _, behind := range []time.Duration{0, 1, time.Second} {
		s.synced(behind)
	}
	require.Equal(t, []time.Duration{1, time.Second}, told)
}

// deaf is a sink that answers after some time, whatever its deadline.
type deaf struct {
	status.Sink
	after time.Duration
}

func (d deaf) Get(context.Context, status.Ref) (*v1.Pod, error) {
	time.Sleep(d.after)
	return nil, nil
}

// A call that goes on a tenth longer than it may is given up.
func TestGiveUp(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{66*time.Second - 1: 0, 70 * time.Second: 66 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			target := &target{w: &Writer{cfg: Config{WriteTimeout: time.Minute}}, sink: deaf{after: after}}
			begun, passed := time.Now(), time.Duration(0)
			a, late := target.call(t.Context(), call{kind: callGet}, func() { passed = time.Since(begun) })
			synctest.Wait()
			require.Equal(t, want, passed)
			require.Equal(t, want != 0, late)
			require.Equal(t, begun.Add(after), a.now)
		})
	}
}

// After three failures in a row, the first answer has all be repeated that wait after a
// failure. That there is no such pod, or another version, is an answer.
func TestNoteAnswer(t *testing.T) {
	failed := errors.New("no route")
	for name, c := range map[string]struct {
		before  int
		err     error
		after   int
		hurries bool
	}{
		"again":               {2, failed, 3, false},
		"as before":           {0, nil, 0, false},
		"after two":           {2, nil, 0, false},
		"after three":         {3, nil, 0, true},
		"there is no pod":     {3, status.ErrNotFound, 0, true},
		"it is another":       {3, status.ErrConflict, 0, true},
		"no pod, as before":   {0, status.ErrNotFound, 0, false},
		"another, after many": {9, status.ErrConflict, 0, true},
	} {
		w := &Writer{entries: map[types.UID]*entry{}}
		s := newTarget(w, 0, NamedSink{Name: "api", Sink: deaf{}})
		s.failures = c.before
		w.targets = []*target{s}
		d := w.entry("uid").deliveries[0]
		d.status, d.version, d.ready, d.failures, d.retryAt = &v1.PodStatus{}, 1, true, 1, now
		s.noteAnswer(c.err)
		require.Equal(t, c.after, s.failures, name)
		require.Equal(t, c.hurries, d.retryAt.IsZero(), name)
		require.Equal(t, c.hurries, d.waits.ready.In(), name)
	}
}

// What is not about a change has waited since now, and what is about one since that.
func TestWaitsSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Writer{entries: map[types.UID]*entry{}}
		s := newTarget(w, 0, NamedSink{Name: "api", Sink: deaf{}})
		w.targets = []*target{s}
		d := w.entry("uid").deliveries[0]
		for since, want := range map[time.Time]time.Time{{}: time.Now(), now: now} {
			d.status, d.version, d.ready, d.since = &v1.PodStatus{}, 1, true, since
			s.enqueue(d)
			require.True(t, want.Equal(d.waits.since))
		}
	})
}
