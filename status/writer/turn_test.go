package writer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

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
