package writer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

// T28, T21, T19: an end is kept back while containers may run.
func TestEndIsHeld(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, running(pod, true))
		r.pass(0)
		r.mayRun[pod.UID] = true
		s := status.WithDisruption(pod, ended(pod, 1), "evicted", time.Now())
		s.Reason = "Evicted"
		r.Set(pod, s)
		r.pass(time.Minute)
		got := r.pod("a").Status
		require.Equal(t, v1.PodRunning, got.Phase)
		require.Empty(t, got.Reason)
		require.Equal(t, "absent", value(&got, v1.DisruptionTarget), "T21")
		require.NotNil(t, got.ContainerStatuses[0].State.Terminated, "the rest is written")
		x, _ := r.Explain(pod.UID)
		require.True(t, x.Held)
		require.Contains(t, x.Why, "kept back")
		require.Equal(t, 2, r.written())

		r.mu.Lock()
		r.mayRun[pod.UID] = false
		r.mu.Unlock()
		r.pass(10 * time.Second)
		got = r.pod("a").Status
		require.Equal(t, v1.PodFailed, got.Phase)
		require.Equal(t, "Evicted", got.Reason)
		require.Equal(t, "True", value(&got, v1.DisruptionTarget), "T21")
		require.Equal(t, "False", value(&got, v1.PodReady), "T19")
		require.Equal(t, 1, r.written())
	})
}

// Of a pod that is to be deleted and ends soon after its containers, one write tells
// everything. If what it holds is not released soon, the rest is told without the end.
func TestEndIsNear(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		dying := func(name string) *v1.Pod {
			pod := r.sink.Put(newPod(name))
			r.Set(pod, running(pod, true))
			r.pass(0)
			pod = r.sink.MarkDeleted("ns", name)
			r.mu.Lock()
			r.mayRun[pod.UID] = true
			r.mu.Unlock()
			r.Set(pod, ended(pod, 0))
			r.pass(20 * time.Millisecond)
			return pod
		}
		soon := dying("a")
		require.Equal(t, 1, r.written(), "that it runs")
		require.NoError(t, r.Terminate(soon))
		r.pass(0)
		require.Equal(t, 1, r.written())
		require.Nil(t, r.pod("a"))

		late := dying("b")
		require.Equal(t, 1, r.written(), "that it runs")
		r.pass(time.Second)
		require.Equal(t, 1, r.written())
		require.Equal(t, v1.PodRunning, r.pod("b").Status.Phase)
		require.NotNil(t, r.pod("b").Status.ContainerStatuses[0].State.Terminated)
		require.NoError(t, r.Terminate(late))
		r.pass(0)
		require.Nil(t, r.pod("b"))

		asked := dying("c")
		require.Equal(t, 2, r.written(), "the end of b, and that c runs")
		require.NoError(t, r.Flush(r.t.Context(), "api", asked.UID))
		require.Equal(t, 1, r.written(), "whoever asks for it does not wait")
	})
}

// T29, T35: the end is accepted first, then the pod is removed.
func TestDeletion(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		made := newPod("a")
		made.Spec.InitContainers = []v1.Container{{Name: "init"}}
		r.sink.Put(made)
		pod := r.sink.MarkDeleted("ns", "a")
		waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "PodInitializing"}}
		r.Set(pod, v1.PodStatus{Phase: v1.PodPending,
			InitContainerStatuses: []v1.ContainerStatus{{Name: "init", State: waits}}, ContainerStatuses: []v1.ContainerStatus{{Name: "app", State: waits}}})
		r.pass(0)
		r.sink.ForgetCalls()
		r.Terminate(pod)
		s := r.Get(pod.UID)
		require.Equal(t, v1.PodFailed, s.Phase)
		require.Equal(t, int32(137), s.InitContainerStatuses[0].State.Terminated.ExitCode, "T35")
		require.NotNil(t, s.ContainerStatuses[0].State.Waiting, "T35 it never had its turn")
		r.pass(0)
		calls := r.sink.Calls()
		require.Len(t, calls, 2)
		require.Equal(t, statustest.Patch, calls[0].Op)
		require.Equal(t, v1.PodFailed, calls[0].Status.Phase, "T29 first the end")
		require.Equal(t, statustest.Delete, calls[1].Op)
		require.Equal(t, pod.UID, calls[1].Ref.UID, "T29 then the pod")
		require.Nil(t, r.pod("a"))
		require.Nil(t, r.Get(pod.UID), "6.4 nothing is remembered")
	})
}

// 6.5: whether the pod had its turn is judged by what the API shows of it, not by
// the copy of it that is at hand.
func TestTerminateIsJudgedByTheSink(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		made := newPod("a")
		made.Spec.InitContainers = []v1.Container{{Name: "init"}}
		pod := r.sink.Put(made)
		r.Set(pod, running(pod, true))
		r.pass(0)
		r.Terminate(pod)
		require.Equal(t, int32(137), r.Get(pod.UID).ContainerStatuses[0].State.Terminated.ExitCode)
	})
	// What the sink has not taken yet does not count.
	bubble(t, nil, func(r *rig) {
		made := newPod("a")
		made.Spec.InitContainers = []v1.Container{{Name: "init"}}
		pod := r.sink.Put(made)
		waiting := running(pod, false)
		waiting.ContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "PodInitializing"}}
		r.Set(pod, waiting)
		r.pass(0)
		r.Set(pod, running(pod, true))
		r.Terminate(pod)
		require.Nil(t, r.Get(pod.UID).ContainerStatuses[0].State.Terminated)
	})
}

// Where no sink tells, the pod's own account counts, and the Writer's where nobody else has one.
func TestTerminateIsJudgedWithoutTheSink(t *testing.T) {
	for name, c := range map[string]struct {
		sinks []writer.NamedSink
		ends  bool
	}{
		"not known yet":   {sinks(statustest.NewSink()), false},
		"memory only":     {nil, true},
		"a receiver only": {sinks((&receiver{}).sink()), true},
	} {
		w, err := writer.New(writer.Config{Sinks: c.sinks})
		require.NoError(t, err)
		pod := newPod("a")
		pod.Spec.InitContainers = []v1.Container{{Name: "init"}}
		require.NoError(t, w.Set(pod, running(pod, true)))
		require.NoError(t, w.Terminate(pod))
		require.Equal(t, c.ends, w.Get(pod.UID).ContainerStatuses[0].State.Terminated != nil, name)
	}
}

// That nothing is left of a pod is heeded also where its status says nothing new.
func TestTerminateWithoutNews(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.sink.Put(newPod("a"))
		pod := r.sink.MarkDeleted("ns", "a")
		r.Set(pod, status.Finalize(pod, ended(pod, 0), time.Now()))
		r.pass(time.Minute)
		require.NotNil(t, r.pod("a"))
		r.changed = nil
		require.NoError(t, r.Terminate(pod))
		require.Empty(t, r.changed)
		r.pass(0)
		require.Nil(t, r.pod("a"))
	})
}

// That a pod is to be deleted may be known from its next status alone.
func TestDeletionIsLearntLate(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, ended(pod, 0))
		r.Terminate(pod)
		r.pass(time.Minute)
		r.Set(r.sink.MarkDeleted("ns", "a"), *r.Get(pod.UID))
		r.pass(0)
		require.Nil(t, r.pod("a"))
	})
}

// 6.4: removal takes the request, the end and that nothing is left, in any order.
func TestDeletionTakesThree(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.sink.Watch(func(pod *v1.Pod) { r.Observe(pod) })
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, ended(pod, 0))
		r.pass(time.Minute)
		r.Terminate(pod)
		r.pass(time.Minute)
		require.NotNil(t, r.pod("a"), "nobody wants it removed")
		r.sink.MarkDeleted("ns", "a")
		r.pass(0)
		require.Nil(t, r.pod("a"), "at once")

		pod = r.sink.Put(newPod("b"))
		r.Set(pod, running(pod, true))
		r.sink.MarkDeleted("ns", "b")
		r.pass(time.Minute)
		r.Set(pod, ended(pod, 0))
		r.pass(time.Minute)
		require.NotNil(t, r.pod("b"), "something is left of it")
		r.sink.Fail(func(c statustest.Call) statustest.Fault {
			if c.Op == statustest.Delete {
				return statustest.Fault{Err: errors.New("not now")}
			}
			return statustest.Fault{}
		})
		r.sink.ForgetCalls()
		r.Terminate(pod)
		r.pass(time.Minute)
		require.NotNil(t, r.pod("b"))
		tries := len(r.sink.Calls(statustest.Delete))
		require.Greater(t, tries, 6)
		require.Less(t, tries, 20, "with growing pauses")
		x, _ := r.Explain(pod.UID)
		require.Contains(t, x.Why, "could not be removed: delete ns/b(uid-b): not now")
		r.sink.Fail(nil)
		r.pass(10 * time.Second)
		require.Nil(t, r.pod("b"))
	})
}
