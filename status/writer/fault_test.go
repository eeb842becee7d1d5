package writer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

// In an outage of an hour no end, exit code or restart count is lost, and each pod is written at
// most once when the sink is back.
func TestOutageOfAnHour(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		const n = 20
		pods := make([]*v1.Pod, n)
		for i := range pods {
			pods[i] = r.sink.Put(newPod(fmt.Sprint("pod-", i)))
			r.Set(pods[i], running(pods[i], true))
		}
		r.pass(time.Second)
		require.Equal(t, n, r.written())
		r.sink.SetDown(errDown)
		for minute := range 60 {
			for i, pod := range pods {
				s := running(pod, minute%2 == 0)
				s.ContainerStatuses[0].LastTerminationState = terminated(int32(minute))
				if i%2 == 0 && minute >= 30 {
					s = ended(pod, int32(i+1))
				}
				s.ContainerStatuses[0].RestartCount = int32(minute)
				r.Set(pod, s)
			}
			r.pass(time.Minute)
		}
		require.Less(t, len(r.sink.Calls()), n*400*2, "the pauses grow to the resync")
		r.sink.ForgetCalls()
		r.sink.SetDown(nil)
		back := time.Now()
		r.pass(11 * time.Second)
		for _, c := range r.sink.Calls(statustest.Patch) {
			require.Less(t, c.At.Sub(back), 3*time.Second, "the first success ends the other pauses")
		}
		require.Equal(t, n, r.written(), "one write per pod")
		for i, pod := range pods {
			got := r.pod(pod.Name).Status.ContainerStatuses[0]
			require.Equal(t, int32(59), got.RestartCount)
			if i%2 == 0 {
				require.Equal(t, int32(i+1), got.State.Terminated.ExitCode)
			} else {
				require.Equal(t, int32(59), got.LastTerminationState.Terminated.ExitCode)
			}
		}
		r.pass(time.Hour)
		require.Zero(t, r.written())
	})
}

// Calls that ignore their deadline delay only their own pods, even if they reach the limit on
// parallel writes. When they return, their pods are written.
func TestSinkIgnoresDeadline(t *testing.T) {
	bubble(t, func(cfg *writer.Config) { writer.LimitWrites(cfg, 2) }, func(r *rig) {
		release := make(chan struct{})
		r.sink.Fail(func(c statustest.Call) statustest.Fault {
			if c.Ref.Name != "other" {
				return statustest.Fault{Deaf: release}
			}
			return statustest.Fault{}
		})
		pods := []*v1.Pod{r.sink.Put(newPod("deaf-0")), r.sink.Put(newPod("deaf-1"))}
		for _, pod := range pods {
			r.Set(pod, running(pod, true))
		}
		r.pass(0)
		other := r.sink.Put(newPod("other"))
		r.Set(other, running(other, true))
		r.pass(12 * time.Second)
		require.Equal(t, v1.PodRunning, r.pod("other").Status.Phase)
		r.Forget(pods[0].UID)
		r.Set(pods[0], running(pods[0], true))
		r.pass(time.Minute)
		require.Empty(t, r.sink.Overlaps(), "no second call for a pod forgotten during a call")
		r.sink.Fail(nil)
		close(release)
		r.pass(time.Minute)
		for _, pod := range pods {
			require.Equal(t, v1.PodRunning, r.pod(pod.Name).Status.Phase)
		}
	})
}

// A panic of a sink is a failure with its stack in the log. Of failures in a row, one is a
// warning.
func TestPanickingSink(t *testing.T) {
	var log bytes.Buffer
	bubble(t, func(cfg *writer.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.sink.Fail(func(statustest.Call) statustest.Fault { return statustest.Fault{Panic: "boom"} })
		r.Set(pod, running(pod, true))
		r.pass(time.Second)
		x, _ := r.Explain(pod.UID)
		require.ErrorContains(t, x.Err, "panicked: boom")
		require.Regexp(t, `level=ERROR .*statustest`, log.String())
		r.sink.Fail(nil)
		r.pass(10 * time.Second)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase)

		log.Reset()
		r.sink.SetDown(errDown)
		r.Set(pod, running(pod, false))
		r.pass(time.Minute)
		require.Contains(t, log.String(), "level=WARN")
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	})
}

type modifyingSink struct {
	*statustest.Sink
	patch func(*v1.Pod) *v1.Pod
}

func (o *modifyingSink) Patch(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
	pod, err := o.Sink.Patch(ctx, ref, old, new)
	if err == nil {
		pod = o.patch(pod)
	}
	return pod, err
}

func TestInvalidResultsOfSink(t *testing.T) {
	for name, tc := range map[string]struct {
		patch func(*v1.Pod) *v1.Pod
		err   string
	}{
		"no pod":      {func(*v1.Pod) *v1.Pod { return nil }, "neither a pod nor an error"},
		"another pod": {func(*v1.Pod) *v1.Pod { return newPod("b") }, "a different pod"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(cfg *writer.Config) {
				cfg.Sinks = sinks(&modifyingSink{cfg.Sinks[0].Sink.(*statustest.Sink), tc.patch})
			}, func(r *rig) {
				pod := r.sink.Put(newPod("a"))
				r.Set(pod, running(pod, true))
				r.pass(0)
				x, _ := r.Explain(pod.UID)
				require.ErrorContains(t, x.Err, tc.err)
				r.pass(time.Minute)
				require.Equal(t, 1, r.written(), "the next Get returns the written status")
			})
		})
	}
}

// The last changes of a pruned pod are written, unless it was forgotten.
func TestPruneWritesLastChanges(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		none := func(types.UID) bool { return false }
		pod := r.sink.Put(newPod("a"))
		r.sink.SetDown(errDown)
		r.Set(pod, ended(pod, 3))
		r.pass(time.Second)
		r.Prune(none)
		require.Nil(t, r.Get(pod.UID))
		require.Empty(t, r.Pods())
		r.sink.SetDown(nil)
		r.pass(10 * time.Second)
		require.Equal(t, v1.PodFailed, r.pod("a").Status.Phase)
		_, known := r.Explain(pod.UID)
		require.False(t, known)

		forgotten := r.sink.Put(newPod("b"))
		r.sink.SetDown(errDown)
		r.Set(forgotten, ended(forgotten, 3))
		r.pass(time.Second)
		r.Forget(forgotten.UID)
		r.sink.SetDown(nil)
		r.pass(time.Minute)
		require.Equal(t, v1.PodPending, r.pod("b").Status.Phase)

		// Also during a write of the pod.
		r.sink.SetLatency(time.Second)
		busy := r.sink.Put(newPod("busy"))
		r.Set(busy, running(busy, true))
		r.pass(500 * time.Millisecond)
		r.Forget(busy.UID)
		r.pass(time.Minute)
		require.Equal(t, v1.PodPending, r.pod("busy").Status.Phase)
		r.sink.SetLatency(0)

		gone := newPod("c")
		r.Set(gone, ended(gone, 3))
		r.pass(time.Second)
		r.Prune(none)
		_, known = r.Explain(gone.UID)
		require.False(t, known, "the sink has no such pod")

		for name, ready := range map[string]bool{"the same": false, "another": true} {
			back := r.sink.Put(newPod(name))
			r.sink.SetDown(errDown)
			s := running(back, false)
			r.Set(back, s)
			r.pass(time.Second)
			r.Prune(none)
			r.Change(back.UID, func(s v1.PodStatus) v1.PodStatus { return withMessage(s, "after Prune") })
			require.Nil(t, r.Get(back.UID), name)
			r.changed = nil
			if ready {
				s = running(back, true)
			}
			r.Set(back, s)
			require.NotNil(t, r.Get(back.UID), "set again, with %s status", name)
			require.Equal(t, []types.UID{back.UID}, r.changed, name)
			r.sink.SetDown(nil)
			r.pass(10 * time.Second)
			require.NotNil(t, r.Get(back.UID), name)
			require.Equal(t, v1.PodRunning, r.pod(name).Status.Phase)
			require.Empty(t, r.pod(name).Status.Message)
		}
	})
}

// A pod that the sink does not have yet is written once it does: at once if observed, otherwise
// within a minute.
func TestPodAppearsLateAtSink(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		for name, observed := range map[string]bool{"observed": true, "not observed": false} {
			pod, wait := newPod(name), time.Minute
			r.Set(pod, running(pod, true))
			r.pass(time.Hour)
			x, _ := r.Explain(pod.UID)
			require.Equal(t, "the sink has no pod of this name and UID", x.Why)
			if r.sink.Put(pod); observed {
				r.Observe(r.pod(name))
				wait = 0
			}
			r.pass(wait)
			require.Equal(t, v1.PodRunning, r.pod(name).Status.Phase, name)
			x, _ = r.Explain(pod.UID)
			require.Empty(t, x.Why, name)
		}
	})
}

// Many concurrent callers while calls fail: the sink gets the newest status of each pod.
// FuzzWriter covers histories of one pod.
func TestConcurrentCallers(t *testing.T) {
	bubble(t, func(cfg *writer.Config) { writer.LimitWrites(cfg, 4) }, func(r *rig) {
		var mu sync.Mutex
		calls := map[string]int{} // per pod: faults in turn over all pods could hit the same pod again and again
		r.sink.Fail(func(c statustest.Call) statustest.Fault {
			mu.Lock()
			defer mu.Unlock()
			calls[c.Ref.Name]++
			return []statustest.Fault{{}, {Err: errors.New("failed")}, {}, {LostAnswer: errors.New("lost")}, {Err: status.ErrConflict}}[calls[c.Ref.Name]%5]
		})
		var callers sync.WaitGroup
		for i := range 20 {
			pod := r.sink.Put(newPod(fmt.Sprint("pod-", i)))
			callers.Go(func() {
				for n := range 20 {
					_ = r.Set(pod, withMessage(running(pod, n%2 == 0), "message %d", n))
					r.SetProbed(probed(pod.UID, "fake://"+pod.Name+"-app", probe.Readiness, n%2 == 1))
					r.Observe(r.pod(pod.Name))
					r.Explain(pod.UID)
					time.Sleep(100 * time.Millisecond)
				}
				_ = r.Set(pod, ended(pod, 9))
			})
		}
		callers.Wait()
		r.pass(2 * time.Minute)
		require.LessOrEqual(t, r.sink.Peak(), 4)
		for i := range 20 {
			require.Equal(t, v1.PodFailed, r.pod(fmt.Sprint("pod-", i)).Status.Phase)
		}
	})
}
