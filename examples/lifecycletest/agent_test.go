package lifecycletest

import (
	"context"
	"errors"
	"flag"
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

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in the scripts")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name, image string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec: v1.PodSpec{
			Containers:                    []v1.Container{{Name: "main", Image: image}},
			TerminationGracePeriodSeconds: new(int64(30)),
		},
	}
}

func untilStopped(ctx context.Context) error { <-ctx.Done(); return nil }

// node is the running agent in a bubble.
type node struct {
	*podworkers.Workers
	rec   *podworkerstest.Recorder
	agent *agent
}

// bound panics if a test takes too long: in a bubble with a busy agent time does not pass, so the
// limit must be outside.
func bound(t *testing.T) {
	timer := time.AfterFunc(2*time.Minute, func() { panic(t.Name() + ": the agent never becomes idle") })
	t.Cleanup(func() { timer.Stop() })
}

func inBubble(t *testing.T, programs map[string]program, f func(t *testing.T, n *node)) {
	bound(t)
	synctest.Test(t, func(t *testing.T) {
		n := &node{agent: newAgent(programs)}
		cfg := podworkers.Config{Syncer: n.agent, Jitter: func() float64 { return 0 }}
		n.rec = podworkerstest.Record(&cfg)
		n.rec.CancelLimit(time.Second)
		var err error
		n.Workers, err = podworkers.New(cfg)
		require.NoError(t, err)
		n.agent.ended = func(pod *v1.Pod) {
			_ = n.UpdatePod(podworkers.Update{Type: podworkers.UpdateSync, Pod: pod}) // fails while the agent stops
		}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- n.agent.run(ctx, n.Workers) }()
		f(t, n)
		synctest.Wait()
		if err := n.rec.Check(n.Workers); err != nil {
			t.Error(err, "\n", n.rec.Trace())
		}
		stop()
		require.NoError(t, <-ran)
	})
}

// A program that fails at once is restarted after 10 s, 20 s and so on up to five minutes, and its
// neighbour is not affected. Virtual time: ten minutes.
func TestCrashLoop(t *testing.T) {
	var crashes, starts []time.Time
	programs := map[string]program{
		"crash":  func(context.Context) error { crashes = append(crashes, time.Now()); return errors.New("exit code 3") },
		"steady": func(ctx context.Context) error { starts = append(starts, time.Now()); return untilStopped(ctx) },
	}
	inBubble(t, programs, func(t *testing.T, n *node) {
		desired := []*v1.Pod{pod("a", "crash"), pod("b", "steady")}
		for _, p := range desired {
			require.NoError(t, n.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: p}))
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var seconds []float64
		for _, at := range crashes {
			seconds = append(seconds, at.Sub(crashes[0]).Seconds())
		}
		require.Equal(t, []float64{0, 10, 30, 70, 150, 310}, seconds)
		require.ErrorContains(t, n.State("a").LastError, "back-off 5m0s: exit code 3")
		require.Len(t, starts, 1)

		for range 2 {
			n.SyncKnownPods(nil)
			synctest.Wait()
		}
		require.Empty(t, n.Pods())
		require.Empty(t, n.agent.jobs)
	})
}

// A failed call is retried; the effects of the first call cause no error.
func TestFaults(t *testing.T) {
	inBubble(t, map[string]program{"steady": untilStopped}, func(t *testing.T, n *node) {
		n.rec.On("a", podworkers.CallSyncTerminatingPod, podworkerstest.Fail(errors.New("no luck")), nil)
		require.NoError(t, n.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod("a", "steady")}))
		time.Sleep(time.Second)
		require.NoError(t, n.Kill(t.Context(), pod("a", "steady"), podworkers.KillOptions{}))
		synctest.Wait()
		require.Equal(t, []podworkers.Call{
			podworkers.CallSyncPod, podworkers.CallSyncTerminatingPod, podworkers.CallSyncTerminatingPod, podworkers.CallSyncTerminatedPod,
		}, n.rec.Calls("a"))
	})
}

// The scripts in testdata run with this agent.
func TestScripts(t *testing.T) {
	bound(t)
	podworkerstest.RunScripts(t, "testdata/*.txt", podworkerstest.ScriptOptions{
		Rewrite: *rewrite,
		Config: func(*testing.T) podworkers.Config {
			return podworkers.Config{Syncer: newAgent(map[string]program{
				"steady": untilStopped,
				"brief":  func(ctx context.Context) error { time.Sleep(5 * time.Second); return nil },
				"slow":   func(ctx context.Context) error { <-ctx.Done(); time.Sleep(20 * time.Second); return nil },
			})}
		},
	})
}
