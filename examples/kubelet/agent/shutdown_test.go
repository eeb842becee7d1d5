package agent

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// login is a machine, and its session, that goes down when the test decides.
type login struct {
	mu        sync.Mutex
	down      bool
	lockCount int
	signals   chan bool
	released  func() // called when a lock is released
}

func (l *login) Connect(context.Context, time.Duration) (shutdown.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signals = make(chan bool, 8)
	return l, nil
}

func (l *login) announce(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	l.signals <- down
}

func (l *login) locks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lockCount
}

func (l *login) Signals() <-chan bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signals
}

func (l *login) Close() error { return nil }

func (l *login) GoingDown(context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down, nil
}

func (l *login) Lock(context.Context) (io.Closer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lockCount++
	return (*loginLock)(l), nil
}

type loginLock login

func (l *loginLock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lockCount--
	if l.released != nil {
		l.released()
	}
	return nil
}

// slow is a program that ends one second after its stop signal.
func slow(ctx context.Context, p *fake.Process) int {
	select {
	case <-p.Signals():
	case <-ctx.Done():
		return 1
	}
	time.Sleep(time.Second)
	return 0
}

// newShutdownWorld prepares a world whose machine can go down, with a critical pod and another one,
// which ends one second after its stop signal.
func newShutdownWorld(t *testing.T, test func(w *world, l *login, times string)) {
	inClusterOf(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"web": slow}, fake.SleepUntilStopped)}, func(w *world) {
		l := &login{}
		w.configure = func(c *Config) {
			c.Login = l
			c.Kubelet.ShutdownGracePeriod.Duration, c.Kubelet.ShutdownGracePeriodCriticalPods.Duration = 15*time.Second, 5*time.Second
		}
		put(t, w.dir, "root/"+shutdown.TimesFile, "{")
		var log lockedBuffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		w.put(wanting("web", "", withPriority(0)), wanting("dns", "", withPriority(ofTheSystem)))
		w.startFor(20 * time.Second)
		require.Equal(t, map[string][]uint32{"web": {0}, "dns": {0}}, w.Running())
		require.NotZero(t, log.count(shutdown.TimesFile), "an unreadable file of times is logged, and its metrics are missing")
		require.Equal(t, 1, l.locks())
		test(w, l, filepath.Join(w.dir, "root", shutdown.TimesFile))
	})
}

// completedWithNode is the end of a pod of restart policy Always whose containers exit with 0.
const (
	endedWithNode     = "Failed Terminated: Pod was terminated in response to imminent node shutdown. (True TerminationByKubelet: Pod was terminated in response to imminent node shutdown.)"
	completedWithNode = "Succeeded :  (True TerminationByKubelet: Pod was terminated in response to imminent node shutdown.)"
)

func (w *world) shown(name string) float64 {
	families, err := w.agent.in.cfg.Metrics.Gatherer().Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// N35: pods end in the order of their priorities, and the API server has their statuses before the
// machine continues. The Node reports the shutdown at once, and new pods are rejected. A cancelled
// shutdown restores the previous state, except for the pods that have ended.
func TestNodeShutdown(t *testing.T) {
	newShutdownWorld(t, func(w *world, l *login, file string) {
		require.Contains(t, w.nodeCondition(v1.NodeReady), "True KubeletReady")
		var then []string
		l.released = func() { then = append(then, w.ended("web"), w.ended("dns")) }
		l.announce(true)
		w.Sleep(500 * time.Millisecond)
		require.Equal(t, "False KubeletNotReady: node is shutting down", w.nodeCondition(v1.NodeReady))
		require.Equal(t, map[string][]uint32{"web": {0}, "dns": {0}}, w.Running(), "the critical pod waits for the other pod")
		w.put(bound("late", "late"))
		w.Sleep(4 * time.Second)
		require.Empty(t, w.Running())
		require.Equal(t, "Failed NodeShutdown: Pod was rejected: Pod was rejected as the node is shutting down.", w.ended("late"))
		require.Equal(t, []string{completedWithNode, endedWithNode}, then, "reported before the lock is released")
		require.Zero(t, l.locks())
		require.Contains(t, w.events("n"), "Shutdown")
		times, err := shutdown.ReadTimes(file)
		require.NoError(t, err)
		require.True(t, times.End.After(times.Start))
		require.InDelta(t, times.End.Unix(), w.shown("kubelet_graceful_shutdown_end_time_seconds"), 1)
		require.InDelta(t, times.Start.Unix(), w.shown("kubelet_graceful_shutdown_start_time_seconds"), 1)

		l.announce(false)
		w.Sleep(2 * time.Second)
		require.Equal(t, 1, l.locks())
		require.Contains(t, w.nodeCondition(v1.NodeReady), "True KubeletReady")
		w.put(bound("after", "after"))
		w.Sleep(3 * time.Second)
		require.Equal(t, map[string][]uint32{"after": {0}}, w.Running())
		require.Equal(t, completedWithNode, w.ended("web"))

		w.stop()
		require.Zero(t, l.locks())
		require.NotEmpty(t, w.Running(), "stopping the agent does not stop its pods")
	})
}

// An agent that is killed during a shutdown leaves the rest to the next one, which reports the
// start time.
func TestAgentKilledDuringNodeShutdown(t *testing.T) {
	newShutdownWorld(t, func(w *world, l *login, file string) {
		l.announce(true)
		w.Sleep(500 * time.Millisecond)
		w.crash()
		require.Len(t, w.Running(), 2)
		begun, err := shutdown.ReadTimes(file)
		require.NoError(t, err)
		require.True(t, begun.End.IsZero())
		w.startFor(20 * time.Second)
		require.Empty(t, w.Running())
		require.Equal(t, endedWithNode, w.ended("web"))
		require.Equal(t, endedWithNode, w.ended("dns"))
		times, err := shutdown.ReadTimes(file)
		require.NoError(t, err)
		require.True(t, times.Start.Equal(begun.Start))
		require.Zero(t, l.locks())
	})
}
