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

// Flush waits for the newest status, before and during Run, despite earlier failures.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recv, pod := &receiver{}, newPod("a")
		w := newWriter(t, writer.Config{Sinks: []writer.NamedSink{{Name: "receiver", Sink: recv.sink()}}})
		flush := func() error { return w.Flush(t.Context(), "receiver", pod.UID) }
		require.ErrorIs(t, w.Flush(t.Context(), "stranger", pod.UID), writer.ErrNoSink)
		require.NoError(t, flush(), "an unknown pod needs no write")
		w.Restore(pod, running(pod, true))
		require.NoError(t, flush())
		require.Empty(t, recv.take(), "a restored status is not written")

		w.Set(pod, withMessage(running(pod, true), "one"))
		require.Equal(t, "it waits for Run", w.Explain(pod.UID)[0].Why)
		require.NoError(t, flush())
		require.NoError(t, flush())
		require.Empty(t, w.Explain(pod.UID)[0].Why)
		require.Equal(t, []string{"a Running one", "a Running one"}, recv.take())
		recv.set(errors.New("full"), 0)
		require.ErrorContains(t, flush(), "receive ns/a(uid-a): full")
		require.ErrorContains(t, flush(), "full")
		recv.set(nil, 0)
		require.NoError(t, flush())
		require.Len(t, recv.take(), 3)

		stop := start(t, w)
		recv.set(nil, time.Second)
		w.Set(pod, withMessage(running(pod, true), "two"))
		synctest.Wait()
		w.Set(pod, withMessage(running(pod, true), "three"))
		begin := time.Now()
		require.NoError(t, flush())
		require.Equal(t, 2*time.Second, time.Since(begin), "the call in progress comes first")
		require.Equal(t, []string{"a Running two", "a Running three"}, recv.take())

		w.Set(pod, withMessage(running(pod, true), "once"))
		synctest.Wait()
		w.Set(pod, withMessage(running(pod, true), "for both"))
		begin = time.Now()
		other := make(chan error, 1)
		go func() { other <- flush() }()
		require.NoError(t, flush())
		require.NoError(t, <-other)
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.Equal(t, []string{"a Running once", "a Running for both"}, recv.take(), "one call serves both waiting Flushes")

		w.Set(pod, withMessage(running(pod, true), "four"))
		synctest.Wait()
		short, end := context.WithTimeout(t.Context(), time.Millisecond)
		defer end()
		require.ErrorIs(t, w.Flush(short, "receiver", pod.UID), context.DeadlineExceeded)
		require.NoError(t, stop())
	})
}

// Flush returns after all calls: Get, Patch and the removal.
func TestFlushMakesAllCalls(t *testing.T) {
	sink := statustest.NewSink()
	w := newWriter(t, writer.Config{Sinks: sinks(sink)})
	pod := sink.Put(newPod("a"))
	require.NoError(t, w.Set(pod, running(pod, true)))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.Flush(ended, "api", pod.UID), context.Canceled)
	require.Empty(t, sink.Calls())
	require.NoError(t, w.Flush(t.Context(), "api", pod.UID))
	require.Equal(t, v1.PodRunning, sink.Pod("ns", "a").Status.Phase)
	require.NoError(t, w.Terminate(sink.MarkDeleted("ns", "a")))
	require.NoError(t, w.Flush(t.Context(), "api", pod.UID))
	require.Nil(t, sink.Pod("ns", "a"))
	require.Nil(t, w.Get(pod.UID))
}

// Flush does not request a removed pod from its sink, even if another sink is not up to date.
func TestFlushOfRemovedPod(t *testing.T) {
	file, recv := statustest.NewSink(), &receiver{}
	bubble(t, withFileAndReceiver(file, recv), func(r *rig) {
		recv.set(errors.New("full"), 0)
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

// A call that started before Flush does not count for it, whether it succeeds or fails.
func TestFlushDuringACall(t *testing.T) {
	for name, failure := range map[string]error{"success": nil, "failure": errors.New("full")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				recv, pod := &receiver{}, newPod("a")
				w := newWriter(t, writer.Config{Sinks: sinks(recv.sink())})
				require.NoError(t, w.Set(pod, running(pod, true)))
				recv.set(failure, time.Second)
				first := make(chan error, 1)
				go func() { first <- w.Flush(t.Context(), "api", pod.UID) }()
				synctest.Wait()
				recv.set(nil, time.Second)
				require.NoError(t, w.Flush(t.Context(), "api", pod.UID))
				require.ErrorIs(t, <-first, failure)
				require.Len(t, recv.take(), 2)
			})
		})
	}
}

// slowSink is a sink whose Get of one pod ignores its deadline and succeeds in the end.
type slowSink struct {
	*statustest.Sink
	name  string
	after time.Duration
}

func (s *slowSink) Get(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
	if ref.Name == s.name {
		time.Sleep(s.after)
	}
	return s.Sink.Get(context.WithoutCancel(ctx), ref)
}

// A write that exceeded its deadline makes no more calls beside the writes that replaced it.
func TestExpiredWriteEnds(t *testing.T) {
	bubble(t, func(cfg *writer.Config) {
		writer.LimitWrites(cfg, 1)
		cfg.Sinks = sinks(&slowSink{cfg.Sinks[0].Sink.(*statustest.Sink), "late", 15 * time.Second})
	}, func(r *rig) {
		late, other := r.sink.Put(newPod("late")), r.sink.Put(newPod("other"))
		begin := time.Now()
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
		require.Equal(t, 11*time.Second, patches[0].At.Sub(begin), "the deadline plus 10%")
		require.Equal(t, "late", patches[1].Ref.Name)
		require.Equal(t, 19*time.Second, patches[1].At.Sub(begin))
	})
}
