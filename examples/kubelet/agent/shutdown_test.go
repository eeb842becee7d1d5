package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// login is a machine that goes down when a test says so.
type login struct {
	mu       sync.Mutex
	down     bool
	held     int // locks
	signals  chan bool
	released func() // called when a lock is let go
}

func (l *login) Connect(context.Context, time.Duration) (shutdown.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signals = make(chan bool, 8)
	return loginSession{l, l.signals}, nil
}

func (l *login) say(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	l.signals <- down
}

func (l *login) locks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

type loginSession struct {
	*login
	signals chan bool
}

func (s loginSession) Signals() <-chan bool { return s.signals }
func (s loginSession) Close() error         { return nil }

func (s loginSession) GoingDown(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down, nil
}

func (s loginSession) Lock(context.Context) (io.Closer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held++
	return loginLock{s.login}, nil
}

type loginLock struct{ l *login }

func (c loginLock) Close() error {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.held--
	if c.l.released != nil {
		c.l.released()
	}
	return nil
}

// slow is a program that ends a second after it was told to.
func slow(ctx context.Context, p *fake.Process) int {
	select {
	case <-p.Signals():
	case <-ctx.Done():
		return 1
	}
	time.Sleep(time.Second)
	return 0
}

// goesDown prepares a world whose machine can go down. Containers called slow end a second
// after they were told to.
func goesDown(t *testing.T, test func(w *world, l *login)) {
	inWorld(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"slow": slow}, fake.SleepUntilStopped)}, func(w *world) {
		w.api = apitest.Start(w.t)
		l := &login{}
		w.configure = func(c *Config) {
			c.Login = l
			c.Kubelet.ShutdownGracePeriod.Duration, c.Kubelet.ShutdownGracePeriodCriticalPods.Duration = 15*time.Second, 5*time.Second
		}
		test(w, l)
	})
}

// important is a pod with a priority.
func important(pod *v1.Pod, priority int32) *v1.Pod {
	pod.Spec.Priority = &priority
	return pod
}

// disrupted is what matters of a pod's status that ended with its node.
func disrupted(pod *v1.Pod) string {
	s := fmt.Sprintf("%s %s: %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.DisruptionTarget {
			s += fmt.Sprintf(" (%s %s: %s)", c.Status, c.Reason, c.Message)
		}
	}
	return s
}

const endedWithNode = "Failed Terminated: Pod was terminated in response to imminent node shutdown. (True TerminationByKubelet: Pod was terminated in response to imminent node shutdown.)"

// readiness is the condition of the Node at the API server.
func (w *world) readiness() string {
	n, ok := apitest.Find(w.api, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	require.True(w.t, ok)
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return string(c.Status) + " " + c.Reason + ": " + c.Message
		}
	}
	return ""
}

// shown is the value of a metric without labels.
func (w *world) shown(name string) float64 {
	families, err := w.agent.cfg.Metrics.Gatherer().Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// N35: pods end by their priorities, the API server has it before the machine goes on, the
// node says at once that it is going down, and takes no more pods. When it does not go down
// after all, it is as before, apart from the pods that have ended.
func TestNodeGoesDown(t *testing.T) {
	goesDown(t, func(w *world, l *login) {
		w.start()
		w.api.Put(important(bound("web", "slow"), 0))
		w.api.Put(important(bound("dns", "quick"), 2_000_000_000))
		w.sleep(20 * time.Second)
		require.Equal(t, map[string][]uint32{"slow": {0}, "quick": {0}}, w.running())
		require.Equal(t, 1, l.locks())
		require.Contains(t, w.readiness(), "True KubeletReady")

		var then []string
		l.released = func() { then = append(then, disrupted(w.at("web")), disrupted(w.at("dns"))) }
		l.say(true)
		w.sleep(500 * time.Millisecond)
		require.Equal(t, "False KubeletNotReady: node is shutting down", w.readiness())
		require.Equal(t, map[string][]uint32{"slow": {0}, "quick": {0}}, w.running(), "the critical one waits for the other")
		w.api.Put(bound("late", "late"))
		w.sleep(4 * time.Second)
		require.Empty(t, w.running())
		require.Equal(t, "Failed NodeShutdown: Pod was rejected: Pod was rejected as the node is shutting down.", disrupted(w.at("late")))
		require.Equal(t, []string{endedWithNode, endedWithNode}, then, "told before the lock is let go")
		require.Zero(t, l.locks())
		require.Contains(t, w.events("n"), "Shutdown")
		times, err := shutdown.ReadTimes(filepath.Join(w.dir, "root", "graceful_node_shutdown_state"))
		require.NoError(t, err)
		require.True(t, times.End.After(times.Start))
		require.InDelta(t, times.End.Unix(), w.shown("kubelet_graceful_shutdown_end_time_seconds"), 1)
		require.InDelta(t, times.Start.Unix(), w.shown("kubelet_graceful_shutdown_start_time_seconds"), 1)

		l.say(false)
		w.sleep(2 * time.Second)
		require.Equal(t, 1, l.locks())
		require.Contains(t, w.readiness(), "True KubeletReady")
		w.api.Put(bound("after", "after"))
		w.sleep(3 * time.Second)
		require.Equal(t, map[string][]uint32{"after": {0}}, w.running())
		require.Equal(t, endedWithNode, disrupted(w.at("web")))

		w.stop()
		require.Zero(t, l.locks())
		require.NotEmpty(t, w.running(), "the end of the agent is not that of its pods")
	})
}

// An agent that is killed in the middle of it leaves the rest to the next one, which shows
// when it began.
func TestKilledWhileTheNodeGoesDown(t *testing.T) {
	goesDown(t, func(w *world, l *login) {
		w.start()
		w.api.Put(important(bound("web", "slow"), 0))
		w.api.Put(important(bound("dns", "quick"), 2_000_000_000))
		w.sleep(20 * time.Second)
		l.say(true)
		w.sleep(500 * time.Millisecond)
		w.crash()
		require.Len(t, w.running(), 2)
		file := filepath.Join(w.dir, "root", "graceful_node_shutdown_state")
		begun, err := shutdown.ReadTimes(file)
		require.NoError(t, err)
		require.True(t, begun.End.IsZero())
		w.start()
		w.sleep(20 * time.Second)
		require.Empty(t, w.running())
		require.Equal(t, endedWithNode, disrupted(w.at("web")))
		require.Equal(t, endedWithNode, disrupted(w.at("dns")))
		times, err := shutdown.ReadTimes(file)
		require.NoError(t, err)
		require.True(t, times.Start.Equal(begun.Start))
		require.Zero(t, l.locks())
	})
}

// A file of times that cannot be read costs the metrics, and is named.
func TestTimesThatCannotBeRead(t *testing.T) {
	goesDown(t, func(w *world, l *login) {
		var log lockedBuffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "root"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "root", "graceful_node_shutdown_state"), []byte("{"), 0o600))
		w.start()
		w.sleep(time.Second)
		require.NotZero(t, log.count("graceful_node_shutdown_state"))
		w.sleep(10 * time.Second)
		require.Equal(t, 1, l.locks())
	})
}
