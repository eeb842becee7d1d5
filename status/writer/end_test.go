package writer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/internal/podstatus"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

// T28, T21, T19: an end is not written while containers may run.
func TestEndWaitsForContainers(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, running(pod, true))
		r.pass(0)
		put(r, r.mayRun, pod.UID, true)
		s := status.WithDisruption(pod, ended(pod, 1), "evicted", time.Now())
		s.Reason = "Evicted"
		r.Set(pod, s)
		r.pass(time.Minute)
		got := r.pod("a").Status
		require.Equal(t, v1.PodRunning, got.Phase)
		require.Empty(t, got.Reason)
		require.Equal(t, "absent", value(&got, v1.DisruptionTarget), "T21")
		require.NotNil(t, got.ContainerStatuses[0].State.Terminated, "all but the end is written")
		x, _ := r.Explain(pod.UID)
		require.Equal(t, "the pod's end is not written while containers may still run", x.Why)
		require.Equal(t, 2, r.written())

		put(r, r.mayRun, pod.UID, false)
		r.pass(10 * time.Second)
		got = r.pod("a").Status
		require.Equal(t, v1.PodFailed, got.Phase)
		require.Equal(t, "Evicted", got.Reason)
		require.Equal(t, "True", value(&got, v1.DisruptionTarget), "T21")
		require.Equal(t, "False", value(&got, v1.PodReady), "T19")
		require.Equal(t, 1, r.written())
	})
}

// If a pod with a deletion request ends soon after its containers, one write reports everything.
// If its resources are not released soon, the rest is written without the end.
func TestNearEndIsOneWrite(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		dying := func(name string) *v1.Pod {
			pod := r.sink.Put(newPod(name))
			r.Set(pod, running(pod, true))
			r.pass(0)
			pod = r.sink.MarkDeleted("ns", name)
			put(r, r.mayRun, pod.UID, true)
			r.Set(pod, ended(pod, 0))
			r.pass(20 * time.Millisecond)
			return pod
		}
		early := dying("a")
		require.Equal(t, 1, r.written(), "the phase Running")
		require.NoError(t, r.Terminate(early))
		r.pass(0)
		require.Equal(t, 1, r.written())
		require.Nil(t, r.pod("a"))

		late := dying("b")
		require.Equal(t, 1, r.written(), "the phase Running")
		r.pass(time.Second)
		require.Equal(t, 1, r.written())
		require.Equal(t, v1.PodRunning, r.pod("b").Status.Phase)
		require.NotNil(t, r.pod("b").Status.ContainerStatuses[0].State.Terminated)
		require.NoError(t, r.Terminate(late))
		r.pass(0)
		require.Nil(t, r.pod("b"))

		flushed := dying("c")
		require.Equal(t, 2, r.written(), "the end of b, and the phase Running of c")
		require.NoError(t, r.Flush(r.t.Context(), "api", flushed.UID))
		require.Equal(t, 1, r.written(), "Flush does not wait for the end")
	})
}

// T29, T35: the sink accepts the end first, then the pod is removed.
func TestDeletion(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.sink.Put(withInit("a"))
		pod := r.sink.MarkDeleted("ns", "a")
		r.Set(pod, v1.PodStatus{Phase: v1.PodPending,
			InitContainerStatuses: []v1.ContainerStatus{{Name: "init", State: initializing()}}, ContainerStatuses: []v1.ContainerStatus{{Name: "app", State: initializing()}}})
		r.pass(0)
		r.sink.ForgetCalls()
		r.Terminate(pod)
		r.pass(0)
		calls := r.sink.Calls()
		require.Len(t, calls, 2)
		require.Equal(t, statustest.Patch, calls[0].Op)
		s := calls[0].Status
		require.Equal(t, v1.PodFailed, s.Phase, "T29 the end comes first")
		require.Equal(t, int32(137), s.InitContainerStatuses[0].State.Terminated.ExitCode, "T35")
		require.NotNil(t, s.ContainerStatuses[0].State.Waiting, "T35 the container never started")
		require.Equal(t, statustest.Delete, calls[1].Op)
		require.Equal(t, pod.UID, calls[1].Ref.UID, "T29 the deletion follows")
		require.Nil(t, r.pod("a"))
		require.Nil(t, r.Get(pod.UID), "6.4 the state is dropped")
	})
}

// 6.5: the sink's status decides whether a container had started, not a copy of the pod, and not
// a status that the sink has not accepted.
func TestTerminateUsesStatusOfSink(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		began, waits := r.sink.Put(withInit("a")), r.sink.Put(withInit("b"))
		r.Set(began, running(began, true))
		waiting := running(waits, false)
		waiting.ContainerStatuses[0].State = initializing()
		r.Set(waits, waiting)
		r.pass(0)
		r.sink.SetLatency(time.Second) // the sink does not accept it before the end
		r.Set(waits, running(waits, true))
		r.Terminate(began)
		r.Terminate(waits)
		require.Equal(t, int32(137), r.Get(began.UID).ContainerStatuses[0].State.Terminated.ExitCode)
		require.Nil(t, r.Get(waits.UID).ContainerStatuses[0].State.Terminated)
	})
}

// Before a sink has responded, the pod's own status decides; with Receivers only, the Writer's.
func TestTerminateWithoutStatusOfSink(t *testing.T) {
	for name, c := range map[string]struct {
		sinks []writer.NamedSink
		ends  bool
	}{
		"no response yet": {sinks(statustest.NewSink()), false},
		"memory only":     {nil, true},
		"only a receiver": {sinks((&receiver{}).sink()), true},
	} {
		w, pod := newWriter(t, writer.Config{Sinks: c.sinks}), withInit("a")
		require.NoError(t, w.Set(pod, running(pod, true)))
		require.NoError(t, w.Terminate(pod))
		require.Equal(t, c.ends, w.Get(pod.UID).ContainerStatuses[0].State.Terminated != nil, name)
	}
}

// Terminate takes effect even without a change of the status.
func TestTerminateWithoutChange(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.sink.Put(newPod("a"))
		pod := r.sink.MarkDeleted("ns", "a")
		r.Set(pod, podstatus.Finalize(pod, ended(pod, 0), time.Now()))
		r.pass(time.Minute)
		require.NotNil(t, r.pod("a"))
		r.changed = nil
		require.NoError(t, r.Terminate(pod))
		require.Empty(t, r.changed)
		r.pass(0)
		require.Nil(t, r.pod("a"))
	})
}

// The Writer may learn of a deletion request late, from the pod's next status or from Config.Pod.
func TestLateDeletionRequest(t *testing.T) {
	for name, learn := range map[string]func(r *rig, pod, deleted *v1.Pod){
		"status": func(r *rig, _, deleted *v1.Pod) { r.Set(deleted, *r.Get(deleted.UID)) },
		"Config.Pod": func(r *rig, pod, deleted *v1.Pod) {
			put(r, r.pods, pod.UID, deleted)
			r.Set(pod, withMessage(*r.Get(pod.UID), "changed"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				pod := r.sink.Put(newPod("a"))
				r.Set(pod, ended(pod, 0))
				r.Terminate(pod)
				r.pass(time.Minute)
				require.NotNil(t, r.pod("a"))
				learn(r, pod, r.sink.MarkDeleted("ns", "a"))
				r.pass(0)
				require.Nil(t, r.pod("a"))
			})
		})
	}
}

// A finished pod that others have removed is forgotten. Before that, its absence may mean that
// the sink does not have it yet.
func TestRemovedByOthers(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.sink.Put(newPod("a"))
		pod := r.sink.MarkDeleted("ns", "a")
		r.sink.Remove("ns", "a")
		r.Set(pod, ended(pod, 0))
		r.pass(time.Hour)
		require.NotNil(t, r.Get(pod.UID))
		require.NoError(t, r.Terminate(pod))
		r.pass(time.Minute)
		require.Nil(t, r.Get(pod.UID))
	})
}

// 6.4: removal requires the deletion request, the end and the release of all resources, in any
// order.
func TestDeletionNeedsRequestEndAndRelease(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.sink.Watch(func(pod *v1.Pod) { r.Observe(pod) })
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, ended(pod, 0))
		r.pass(time.Minute)
		r.Terminate(pod)
		r.pass(time.Minute)
		require.NotNil(t, r.pod("a"), "without a deletion request it stays")
		r.sink.MarkDeleted("ns", "a")
		r.pass(0)
		require.Nil(t, r.pod("a"), "at once")

		pod = r.sink.Put(newPod("b"))
		r.Set(pod, running(pod, true))
		r.sink.MarkDeleted("ns", "b")
		r.Observe(pod) // an outdated pod does not revoke the deletion request
		r.pass(time.Minute)
		r.Set(pod, ended(pod, 0))
		r.pass(time.Minute)
		require.NotNil(t, r.pod("b"), "its resources are not released")
		r.fail(statustest.Delete, statustest.Fault{Err: errors.New("not now")})
		r.sink.ForgetCalls()
		r.Terminate(pod)
		r.pass(time.Minute)
		require.NotNil(t, r.pod("b"))
		tries := len(r.sink.Calls(statustest.Delete))
		require.Greater(t, tries, 6)
		require.Less(t, tries, 20, "with growing pauses")
		x, _ := r.Explain(pod.UID)
		require.Equal(t, "the deletion failed", x.Why)
		require.ErrorContains(t, x.Err, "delete ns/b(uid-b): not now")
		r.sink.Fail(nil)
		r.pass(10 * time.Second)
		require.Nil(t, r.pod("b"))
	})
}
