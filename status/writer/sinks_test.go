package writer_test

import (
	"context"
	"errors"
	"fmt"
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

type receiver struct {
	mu       sync.Mutex
	err      error
	hang     time.Duration
	received []string
}

func (r *receiver) sink() status.Sink {
	return status.SinkFunc(func(_ context.Context, pod *v1.Pod, s *v1.PodStatus) error {
		r.mu.Lock()
		err, hang := r.err, r.hang
		r.received = append(r.received, fmt.Sprint(pod.Name, " ", s.Phase, " ", s.Message))
		r.mu.Unlock()
		time.Sleep(hang)
		return err
	})
}

func (r *receiver) set(err error, hang time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.hang = err, hang
}

func (r *receiver) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	received := r.received
	r.received = nil
	return received
}

func withFileAndReceiver(file *statustest.Sink, recv *receiver) func(*writer.Config) {
	return func(cfg *writer.Config) {
		cfg.Sinks = append(cfg.Sinks, writer.NamedSink{Name: "file", Sink: file}, writer.NamedSink{Name: "receiver", Sink: recv.sink()})
	}
}

// Sinks do not wait for each other, even if one is down or hangs.
func TestSinksDoNotWaitForEachOther(t *testing.T) {
	file, recv := statustest.NewSink(), &receiver{}
	bubble(t, withFileAndReceiver(file, recv), func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		file.Put(newPod("a"))
		r.sink.SetDown(errDown)
		r.Set(pod, withMessage(running(pod, true), "one"))
		r.pass(0)
		require.Equal(t, "one", file.Pod("ns", "a").Status.Message)
		require.Equal(t, []string{"a Running one"}, recv.take())
		x := r.Writer.Explain(pod.UID)
		require.Equal(t, []string{"status at api", "status at file", "status at receiver"}, []string{x[0].Part, x[1].Part, x[2].Part})
		require.ErrorContains(t, x[0].Err, "no route")
		require.True(t, !x[0].Since.IsZero() && x[1].Since.IsZero() && x[2].Since.IsZero())

		file.SetLatency(9 * time.Second)
		recv.set(nil, time.Hour)
		r.sink.SetDown(nil)
		r.Set(pod, withMessage(running(pod, false), "two"))
		r.pass(time.Second)
		require.Equal(t, "two", r.pod("a").Status.Message)
		recv.set(nil, 0)
		r.pass(time.Hour)
		require.Equal(t, "two", file.Pod("ns", "a").Status.Message)
	})
}

// A terminal phase is delayed for sinks other than Receivers. A Receiver gets it at once, also
// for static pods, and its Get is never called.
func TestReceiver(t *testing.T) {
	file, recv := statustest.NewSink(), &receiver{}
	bubble(t, withFileAndReceiver(file, recv), func(r *rig) {
		pod := r.sink.Put(staticPod("a"))
		put(r, r.mayRun, pod.UID, true)
		r.Set(pod, running(pod, true))
		r.pass(0)
		r.Set(pod, ended(pod, 1))
		r.pass(0)
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase)
		require.Equal(t, []string{"a Running ", "a Failed "}, recv.take())

		recv.set(fmt.Errorf("full: %w", status.ErrNotFound), 0)
		r.Set(pod, withMessage(ended(pod, 1), "again"))
		r.pass(time.Minute)
		require.Greater(t, len(recv.take()), 6, "repeated, with growing pauses")
		recv.set(nil, 0)
		r.pass(10 * time.Second)
		require.Equal(t, []string{"a Failed again"}, recv.take())
		r.pass(time.Hour)
		require.Empty(t, recv.take())
	})
}

// Config.Pod is called for the newest pod before each call.
func TestNewestPod(t *testing.T) {
	var versions []string
	configure := func(cfg *writer.Config) {
		cfg.Sinks = []writer.NamedSink{{Name: "receiver", Sink: status.SinkFunc(func(_ context.Context, pod *v1.Pod, _ *v1.PodStatus) error {
			versions = append(versions, pod.Labels["version"])
			return nil
		})}}
	}
	bubble(t, configure, func(r *rig) {
		pod := newPod("a")
		r.Set(pod, running(pod, false))
		r.pass(0)
		newer := newPod("a")
		newer.Labels = map[string]string{"version": "2"}
		put(r, r.pods, pod.UID, newer)
		r.Set(pod, running(pod, true))
		r.pass(0)
		require.Equal(t, []string{"", "2"}, versions)
	})
}

// If one sink has removed the pod, the others get the last status, and then the pod is forgotten.
func TestPodIsForgottenAfterAllSinks(t *testing.T) {
	file, recv := statustest.NewSink(), &receiver{}
	bubble(t, withFileAndReceiver(file, recv), func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		file.Put(newPod("a"))
		r.Set(pod, running(pod, true))
		r.pass(0)
		recv.set(errors.New("full"), 0)
		pod = r.sink.MarkDeleted("ns", "a")
		file.MarkDeleted("ns", "a")
		r.Terminate(pod)
		r.pass(time.Second)
		require.Nil(t, r.pod("a"))
		require.Nil(t, file.Pod("ns", "a"))
		require.NotNil(t, r.Get(pod.UID), "one sink lacks the last status")
		require.Equal(t, "the sink has removed the pod", r.Writer.Explain(pod.UID)[0].Why)
		recv.take()
		recv.set(nil, 0)
		r.pass(10 * time.Second)
		require.Equal(t, []string{"a Failed "}, recv.take())
		require.Nil(t, r.Get(pod.UID))

		pod = r.sink.Put(newPod("b"))
		recv.set(errors.New("full"), 0)
		r.Set(pod, running(pod, true))
		r.pass(0)
		pod = r.sink.MarkDeleted("ns", "b")
		r.Terminate(pod)
		r.pass(time.Second)
		require.Nil(t, r.pod("b"))
		r.Observe(pod) // outdated
		pod = r.sink.Put(newPod("b"))
		recv.set(nil, 0)
		r.Set(pod, ended(pod, 0))
		r.pass(time.Minute)
		require.Equal(t, v1.PodSucceeded, r.pod("b").Status.Phase, "the recreated pod is written")
		require.NoError(t, r.Terminate(pod))
		r.pass(time.Minute)
		require.NotNil(t, r.pod("b"), "the recreated pod has no deletion request")
	})
}

// A Receiver receives probe results even if the status stays the same.
func TestReceiverGetsProbeResults(t *testing.T) {
	file, recv := statustest.NewSink(), &receiver{}
	bubble(t, withFileAndReceiver(file, recv), func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		change := probed(pod.UID, "fake://a-app", probe.Liveness, false)
		r.SetProbed(change)
		r.Set(pod, running(pod, true))
		r.pass(0)
		r.written()
		require.Len(t, recv.take(), 1)
		r.SetProbed(change)
		r.pass(0)
		require.Len(t, recv.take(), 1)
		require.Empty(t, r.sink.Calls())
		r.behind = nil
		r.pass(time.Hour)
		r.SetProbed(change)
		r.pass(0)
		require.Len(t, recv.take(), 1)
		require.Equal(t, []time.Duration{1}, r.behind, "the probe result counts as a new change")
		r.Change(pod.UID, func(s v1.PodStatus) v1.PodStatus { return s })
		r.pass(time.Minute)
		require.Empty(t, recv.take(), "an unchanged status is not sent")
		r.Prune(func(types.UID) bool { return false })
		require.Nil(t, r.Writer.Explain(pod.UID))
	})
}

func probed(uid types.UID, id string, typ probe.Type, passed bool) probe.Change {
	result := probe.Failure
	if passed {
		result = probe.Success
	}
	return probe.Change{UID: uid, Stored: probe.Stored{Container: "app", ContainerID: id, Type: typ, Result: result}}
}
