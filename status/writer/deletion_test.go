package writer_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/writer"
)

// feed is a DeletionReceiver.
type feed struct {
	receiver
	status.SinkFunc

	lock    sync.Mutex
	refused error // the result of ReceiveDeletion
}

func newFeed() *feed {
	f := &feed{}
	f.SinkFunc = f.receiver.sink().(status.SinkFunc)
	return f
}

func (f *feed) ReceiveDeletion(_ context.Context, pod *v1.Pod) error {
	f.mu.Lock()
	f.received = append(f.received, pod.Name+" deleted")
	hang := f.hang
	f.mu.Unlock()
	time.Sleep(hang)
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.refused
}

func (f *feed) refuse(err error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.refused = err
}

func withFeed(f *feed) func(*writer.Config) {
	return func(cfg *writer.Config) { cfg.Sinks = []writer.NamedSink{{Name: "feed", Sink: f}} }
}

func none(types.UID) bool { return false }

// A DeletionReceiver receives each deletion once, after the pod's last status.
func TestDeletionReceiver(t *testing.T) {
	refused := errors.New("not now")
	for name, c := range map[string]struct {
		do   func(r *rig, f *feed, pod *v1.Pod)
		want []string
	}{
		"pruned": {func(r *rig, _ *feed, pod *v1.Pod) {
			r.Set(pod, ended(pod, 1))
			r.Prune(none)
		}, []string{"a Failed ", "a deleted"}},
		"forgotten": {func(r *rig, f *feed, pod *v1.Pod) {
			f.set(nil, time.Second)
			r.Set(pod, withMessage(running(pod, false), "last"))
			r.pass(0)
			f.set(nil, 0)
			r.Set(pod, ended(pod, 1)) // waits for the write
			r.Forget(pod.UID)
		}, []string{"a Running last", "a deleted"}},
		"pruned twice": {func(r *rig, _ *feed, pod *v1.Pod) {
			r.Prune(none)
			r.Prune(none)
			r.pass(time.Hour)
			r.Prune(none)
		}, []string{"a deleted"}},
		"returned": {func(r *rig, _ *feed, pod *v1.Pod) {
			r.Prune(none)
			r.Set(pod, running(pod, true))
			r.pass(time.Minute)
			r.Prune(none)
		}, []string{"a deleted", "a Running ", "a deleted"}},
		"returned after a refused deletion": {func(r *rig, f *feed, pod *v1.Pod) {
			f.refuse(refused)
			r.Forget(pod.UID)
			r.pass(time.Millisecond)
			r.Set(pod, running(pod, true))
			r.pass(time.Millisecond)
			x, _ := r.Explain(pod.UID)
			require.ErrorIs(r.t, x.Err, refused)
			require.Equal(r.t, "the deletion failed", x.Why)
			f.refuse(nil)
		}, []string{"a deleted", "a deleted", "a Running "}},
		"returned during the last write": {func(r *rig, f *feed, pod *v1.Pod) {
			f.set(nil, time.Second)
			r.Set(pod, ended(pod, 1))
			r.pass(0)
			f.set(nil, 0)
			r.Forget(pod.UID)
			r.Set(pod, running(pod, true))
			r.pass(time.Second / 2)
			require.Equal(r.t, []string{"a Failed "}, f.take(), "the deletion waits for the write")
		}, []string{"a deleted", "a Running "}},
		"returned before its end was accepted": {func(r *rig, f *feed, pod *v1.Pod) {
			f.set(refused, 0)
			r.Set(pod, withMessage(running(pod, true), "last"))
			r.Prune(none)
			r.pass(time.Millisecond)
			f.set(nil, 0)
			r.Set(pod, running(pod, true))
		}, []string{"a Running last", "a Running "}},
		"forgotten again during the deletion": {func(r *rig, f *feed, pod *v1.Pod) {
			f.set(nil, time.Second)
			r.Forget(pod.UID)
			r.pass(0)
			r.Set(pod, running(pod, true))
			r.Forget(pod.UID)
		}, []string{"a deleted"}},
		"flushed": {func(r *rig, f *feed, pod *v1.Pod) {
			f.refuse(refused)
			r.Forget(pod.UID)
			r.pass(time.Millisecond)
			r.Set(pod, running(pod, true))
			require.ErrorIs(r.t, r.Flush(r.t.Context(), "feed", pod.UID), refused)
			require.Equal(r.t, []string{"a deleted", "a deleted"}, f.take())
			f.refuse(nil)
			require.NoError(r.t, r.Flush(r.t.Context(), "feed", pod.UID))
			require.Equal(r.t, []string{"a deleted", "a Running "}, slices.Compact(f.take()))
		}, nil},
		"only restored": {func(r *rig, _ *feed, _ *v1.Pod) {
			r.Restore(newPod("b"), v1.PodStatus{Phase: v1.PodRunning})
			r.Prune(func(uid types.UID) bool { return uid == "uid-a" })
		}, []string{"b deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed()
			bubble(t, withFeed(f), func(r *rig) {
				pod := newPod("a")
				r.Set(pod, running(pod, false))
				r.pass(0)
				f.take()
				c.do(r, f, pod)
				r.pass(time.Minute)
				require.Equal(r.t, c.want, f.take())
				r.pass(time.Hour)
				require.Empty(r.t, f.take())
			})
		})
	}
}

// A pod that another sink has removed is deleted at a DeletionReceiver.
func TestDeletionReceiverAfterRemoval(t *testing.T) {
	f := newFeed()
	bubble(t, func(cfg *writer.Config) {
		cfg.Sinks = append(cfg.Sinks, writer.NamedSink{Name: "feed", Sink: f})
	}, func(r *rig) {
		r.sink.Put(newPod("a"))
		require.NoError(r.t, r.Terminate(r.sink.MarkDeleted("ns", "a")))
		r.pass(time.Minute)
		require.Nil(r.t, r.pod("a"))
		require.Equal(r.t, []string{"a Failed ", "a deleted"}, f.take())
	})
}

// The end of the agent deletes no pod, but delivers the deletions so far, once more if refused.
func TestDeletionsAtShutdown(t *testing.T) {
	f := newFeed()
	bubble(t, withFeed(f), func(r *rig) {
		for _, name := range []string{"a", "b"} {
			r.Set(newPod(name), running(newPod(name), true))
		}
		r.pass(0)
		f.refuse(errors.New("not now"))
		r.Forget("uid-a")
		r.pass(0)
		f.take()
		f.refuse(nil)
	})
	require.Equal(t, []string{"a deleted"}, f.take())
}
