package writer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

// Flush returns when all is done: the sink was asked, told, and has removed what it was to.
func TestFlushDoesAll(t *testing.T) {
	sink := statustest.NewSink()
	w, err := writer.New(writer.Config{Sinks: sinks(sink)})
	require.NoError(t, err)
	pod := sink.Put(newPod("a"))
	require.NoError(t, w.Set(pod, running(pod, true)))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.Flush(over, "api", pod.UID), context.Canceled)
	require.Empty(t, sink.Calls())
	require.NoError(t, w.Flush(t.Context(), "api", pod.UID))
	require.Equal(t, v1.PodRunning, sink.Pod("ns", "a").Status.Phase)
	require.NoError(t, w.Terminate(sink.MarkDeleted("ns", "a")))
	require.NoError(t, w.Flush(t.Context(), "api", pod.UID))
	require.Nil(t, sink.Pod("ns", "a"))
	require.Nil(t, w.Get(pod.UID))
}

// What was removed at a sink is not asked for there, though another has to be told yet.
func TestFlushOfWhatIsGone(t *testing.T) {
	file, told := statustest.NewSink(), &receiver{}
	bubble(t, beside(file, told), func(r *rig) {
		told.set(errors.New("full"), 0)
		r.sink.Put(newPod("a"))
		pod := r.sink.MarkDeleted("ns", "a")
		r.Set(pod, ended(pod, 0))
		require.NoError(t, r.Terminate(pod))
		r.pass(time.Second)
		require.Nil(t, r.pod("a"))
		require.NotNil(t, r.Get(pod.UID))
		r.sink.ForgetCalls()
		require.NoError(t, r.Flush(t.Context(), "api", pod.UID))
		require.Empty(t, r.sink.Calls())
	})
}

// A call that began before Flush does not do for it, whether it goes well or not.
func TestFlushDuringACall(t *testing.T) {
	for name, failure := range map[string]error{"it goes well": nil, "it fails": errors.New("full")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told, pod := &receiver{}, newPod("a")
				w, err := writer.New(writer.Config{Sinks: sinks(told.sink())})
				require.NoError(t, err)
				require.NoError(t, w.Set(pod, running(pod, true)))
				told.set(failure, time.Second)
				first := make(chan error, 1)
				go func() { first <- w.Flush(t.Context(), "api", pod.UID) }()
				synctest.Wait()
				told.set(nil, time.Second)
				require.NoError(t, w.Flush(t.Context(), "api", pod.UID))
				require.ErrorIs(t, <-first, failure)
				require.Len(t, told.take(), 2)
			})
		})
	}
}

// slow is a sink whose Get of one pod heeds no deadline, and goes well in the end.
type slow struct {
	*statustest.Sink
	name  string
	after time.Duration
}

func (s *slow) Get(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
	if ref.Name == s.name {
		time.Sleep(s.after)
	}
	return s.Sink.Get(context.WithoutCancel(ctx), ref)
}

// A turn that was given up makes no more calls beside those that took its place.
func TestLateTurn(t *testing.T) {
	bubble(t, func(cfg *writer.Config) {
		cfg.MaxParallelWrites = 1
		cfg.Sinks = sinks(&slow{cfg.Sinks[0].Sink.(*statustest.Sink), "late", 15 * time.Second})
	}, func(r *rig) {
		late, other := r.sink.Put(newPod("late")), r.sink.Put(newPod("other"))
		begun := time.Now()
		r.Set(late, running(late, true))
		r.pass(0)
		r.sink.Fail(func(c statustest.Call) statustest.Fault {
			if c.Op == statustest.Patch && c.Ref.Name == "other" {
				return statustest.Fault{Latency: 8 * time.Second}
			}
			return statustest.Fault{}
		})
		r.Set(other, running(other, true))
		r.pass(time.Minute)
		patches := r.sink.Calls(statustest.Patch)
		require.Len(t, patches, 2)
		require.Equal(t, 11*time.Second, patches[0].At.Sub(begun), "the deadline, and a tenth of it")
		require.Equal(t, "late", patches[1].Ref.Name)
		require.Equal(t, 19*time.Second, patches[1].At.Sub(begun))
	})
}

// A sink that had everything already is behind no more.
func TestSyncedWithoutAWrite(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		made := newPod("a")
		made.Status = running(made, true)
		made.Status.StartTime = &made.Status.ContainerStatuses[0].State.Running.StartedAt
		pod := r.sink.Put(made)
		r.Set(pod, made.Status)
		r.pass(0)
		require.Zero(t, r.written())
		require.Len(t, r.behind, 1)
	})
}
