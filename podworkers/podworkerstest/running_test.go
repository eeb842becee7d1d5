package podworkerstest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

// machines are pods with one machine each, which takes 5 s to stop.
type machines struct {
	mu      sync.Mutex
	n       int
	running map[types.UID]string
}

func (m *machines) start(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running[uid] == "" {
		m.n++
		m.running[uid] = fmt.Sprint("machine-", m.n)
	}
}

func (m *machines) stop(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, uid)
}

func (m *machines) Running(uid types.UID) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id := m.running[uid]; id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

// stopped requests the stop of a machine and waits for it.
func (m *machines) stopped(ctx context.Context, uid types.UID) error {
	select {
	case <-time.After(5 * time.Second):
		m.stop(uid)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// planted returns syncers of machines: a correct one, and one per mistake.
func planted(m *machines) map[string]podworkers.SyncerFuncs {
	start := func(ctx context.Context, w podworkers.Work) (bool, error) {
		if ctx.Err() == nil {
			m.start(w.Pod.UID)
		}
		return false, ctx.Err()
	}
	stop := func(ctx context.Context, w podworkers.Work) error { return m.stopped(ctx, w.Pod.UID) }
	return map[string]podworkers.SyncerFuncs{
		"": {Sync: start, Terminating: stop},
		"started machine-1 after termination was requested": {
			Sync: func(_ context.Context, w podworkers.Work) (bool, error) {
				time.Sleep(time.Second) // it ignores its cancelled context
				m.start(w.Pod.UID)
				return false, nil
			},
			Terminating: stop,
		},
		"was started outside of all calls of the syncer": {
			Sync: func(_ context.Context, w podworkers.Work) (bool, error) {
				time.AfterFunc(100*time.Millisecond, func() { m.start(w.Pod.UID) })
				return false, nil
			},
			Terminating: stop,
		},
		"SyncTerminatingPod returned nil while containers still run: machine-1; it must wait for them to stop": {
			Sync: start,
			Terminating: func(ctx context.Context, w podworkers.Work) error {
				go func() { _ = m.stopped(context.WithoutCancel(ctx), w.Pod.UID) }()
				return nil
			},
		},
		"SyncTerminatingPod was interrupted (the grace period was shortened) and returned nil while containers still run: machine-1; an interrupted stop must return an error": {
			Sync: start,
			Terminating: func(ctx context.Context, w podworkers.Work) error {
				_ = m.stopped(ctx, w.Pod.UID)
				return nil
			},
		},
	}
}

// Four common mistakes of syncers are each reported by name. The correct syncer has no
// violation.
func TestPlantedMistakes(t *testing.T) {
	for want := range planted(nil) {
		t.Run(want, func(t *testing.T) {
			m := &machines{running: map[types.UID]string{}}
			recorded(t, planted(m)[want], func(t *testing.T, w *podworkers.Workers, rec *podworkerstest.Recorder) {
				rec.Running(m.Running)
				send(t, w, podworkers.UpdateCreate)
				time.Sleep(500 * time.Millisecond)
				kill := podworkers.Update{Type: podworkers.UpdateKill, Pod: pod(), Kill: &podworkers.KillOptions{GracePeriodSeconds: new(int64(20))}}
				require.NoError(t, w.UpdatePod(kill))
				time.Sleep(2 * time.Second)
				kill.Kill = &podworkers.KillOptions{GracePeriodSeconds: new(int64(1))}
				require.NoError(t, w.UpdatePod(kill))
				time.Sleep(time.Minute)
				synctest.Wait()
				err := rec.Check(w)
				if want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, "pod default/a (a): ")
				require.ErrorContains(t, err, want)
				require.ErrorContains(t, err, "The last events of pod default/a (a):\n")
				require.ErrorContains(t, err, " begins")
				var v podworkerstest.Violation
				require.ErrorAs(t, err, &v)
			})
		})
	}
}

// A machine that starts after all have stopped is reported, and so is an error of Running.
func TestLateStartsAreReported(t *testing.T) {
	m := &machines{running: map[types.UID]string{}}
	recorded(t, planted(m)[""], func(t *testing.T, w *podworkers.Workers, rec *podworkerstest.Recorder) {
		down := false
		rec.Running(func(uid types.UID) ([]string, error) {
			if down {
				return nil, errors.New("down")
			}
			return m.Running(uid)
		})
		send(t, w, podworkers.UpdateCreate)
		send(t, w, podworkers.UpdateKill)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, rec.Check(w))
		m.start("a")
		require.ErrorContains(t, rec.Check(w), "machine-2 was started after a successful SyncTerminatingPod (seen by Check)")
		down = true
		require.ErrorContains(t, rec.Check(w), "list running containers of pod a: down")
	})
}

// Play uses Running, and parts that Config starts in the bubble end with it.
func TestPlayWithARuntime(t *testing.T) {
	m := &machines{running: map[types.UID]string{}}
	podworkerstest.Play(t, "# A pod runs and stops.\n\ncreate a\nwait 1s\nkill a\nwait 10s\n", podworkerstest.ScriptOptions{
		Running: m.Running,
		Config: func(t *testing.T) podworkers.Config {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { <-ctx.Done(); close(ended) }()
			t.Cleanup(func() { cancel(); <-ended })
			return podworkers.Config{Syncer: planted(m)[""]}
		},
	})
}
