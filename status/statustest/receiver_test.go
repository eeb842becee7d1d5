package statustest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
)

// storage is the storage of a receiver, by UID.
type storage struct {
	mu     sync.Mutex
	pods   map[types.UID]*v1.Pod
	failed bool
	hang   chan struct{} // nil: writes do not wait
}

func (st *storage) write(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
	st.mu.Lock()
	hang := st.hang
	st.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case st.failed:
		return errors.New("down")
	}
	st.pods[pod.UID] = &v1.Pod{ObjectMeta: *pod.ObjectMeta.DeepCopy(), Status: *s.DeepCopy()}
	return nil
}

func (st *storage) delete(remove func(*v1.Pod) bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for uid, pod := range st.pods {
		if remove(pod) {
			delete(st.pods, uid)
		}
	}
}

func (st *storage) find(accept func(*v1.Pod) bool) *v1.Pod {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, pod := range st.pods {
		if accept(pod) {
			return pod
		}
	}
	return nil
}

// topic is a DeletionReceiver of two functions.
type topic struct {
	status.SinkFunc
	deletion func(pod *v1.Pod) error
}

func (t *topic) ReceiveDeletion(_ context.Context, pod *v1.Pod) error { return t.deletion(pod) }

// receiverSubject returns a correct receiver, changed by spoil.
func receiverSubject(spoil func(*topic, *storage)) Subject {
	st := &storage{pods: map[types.UID]*v1.Pod{}}
	receiver := &topic{st.write, func(pod *v1.Pod) error {
		st.delete(func(p *v1.Pod) bool { return p.UID == pod.UID })
		return nil
	}}
	spoil(receiver, st)
	return Subject{
		Sink: receiver,
		Pod: func(namespace, name string) *v1.Pod {
			return st.find(func(p *v1.Pod) bool { return p.Namespace == namespace && p.Name == name })
		},
		Fail: func(fail bool) { st.mu.Lock(); defer st.mu.Unlock(); st.failed = fail },
		Hang: func(hang bool) {
			st.mu.Lock()
			defer st.mu.Unlock()
			if hang {
				st.hang = make(chan struct{})
			} else if st.hang != nil {
				close(st.hang)
				st.hang = nil
			}
		},
	}
}

func TestReceiver(t *testing.T) {
	Run(t, func(testing.TB) Subject { return receiverSubject(func(*topic, *storage) {}) })
	t.Run("function", func(t *testing.T) { // has no deletions
		Run(t, func(testing.TB) Subject {
			h := receiverSubject(func(*topic, *storage) {})
			h.Sink = h.Sink.(*topic).SinkFunc
			return h
		})
	})
}

// Each defect of a receiver is reported by the name of the rule, which a correct one follows.
func TestDefectsOfReceiversAreFound(t *testing.T) {
	background := context.Background()
	for _, d := range []struct {
		rule  string
		spoil func(*topic, *storage)
	}{
		{"a call writes all differences before it returns", func(r *topic, st *storage) { // queues
			r.SinkFunc = func(_ context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				time.AfterFunc(time.Millisecond, func() { _ = st.write(background, pod, s) })
				return nil
			}
		}},
		{"a newer status is not replaced by an older one", func(r *topic, st *storage) { // two lanes
			n := 0
			r.SinkFunc = func(_ context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				n++
				time.AfterFunc(time.Duration(n%2)*10*time.Millisecond, func() { _ = st.write(background, pod, s) })
				time.Sleep(time.Millisecond)
				return nil
			}
		}},
		{"a newer status is not replaced by an older one", func(r *topic, st *storage) { // swaps neighbours
			var last *v1.PodStatus
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				err := st.write(ctx, pod, s)
				if last != nil {
					err = st.write(ctx, pod, last)
				}
				last = s
				return err
			}
		}},
		{"a status may skip others", func(r *topic, st *storage) {
			ran := false
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				ran = ran || s.Phase == v1.PodRunning
				if s.Phase == v1.PodFailed && !ran {
					return nil
				}
				return st.write(ctx, pod, s)
			}
		}},
		{"a call may be repeated", func(r *topic, st *storage) {
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				if was := st.find(func(p *v1.Pod) bool { return p.UID == pod.UID }); was != nil && equality.Semantic.DeepEqual(&was.Status, s) {
					return errors.New("duplicate")
				}
				return st.write(ctx, pod, s)
			}
		}},
		{"a call does not change its arguments", func(r *topic, st *storage) {
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				defer func() { pod.ResourceVersion = "2" }()
				return st.write(ctx, pod, s)
			}
		}},
		{"calls for several pods may be concurrent", func(r *topic, st *storage) {
			var busy sync.Mutex
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				if !busy.TryLock() {
					return errors.New("busy")
				}
				defer busy.Unlock()
				time.Sleep(time.Millisecond)
				return st.write(ctx, pod, s)
			}
		}},
		{"a call returns when its context is done", func(r *topic, st *storage) {
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				if ctx.Err() != nil {
					time.Sleep(2 * ruleTimeout)
				}
				return st.write(ctx, pod, s)
			}
		}},
		{"the end of its context ends the writes of a call", func(r *topic, st *storage) { // abandons its write
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				done := make(chan error, 1)
				go func() { done <- st.write(background, pod, s) }()
				select {
				case err := <-done:
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}},
		{"a refused write is an error", func(r *topic, st *storage) {
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				_ = st.write(ctx, pod, s)
				return nil
			}
		}},
		{"a failed call is followed only by newer statuses", func(r *topic, st *storage) { // retries by itself
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				err := st.write(ctx, pod, s)
				if err != nil {
					time.AfterFunc(100*time.Millisecond, func() { _ = st.write(background, pod, s) })
				}
				return err
			}
		}},
		{"a failed call is followed only by newer statuses", func(r *topic, st *storage) { // gives up
			var failed error
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				if failed == nil {
					failed = st.write(ctx, pod, s)
				}
				return failed
			}
		}},
		{"a deleted pod stays absent", func(r *topic, _ *storage) {
			r.deletion = func(*v1.Pod) error { return nil }
		}},
		{"a deleted pod stays absent", func(r *topic, st *storage) { // writes again later
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				time.AfterFunc(100*time.Millisecond, func() { _ = st.write(background, pod, s) })
				return st.write(ctx, pod, s)
			}
		}},
		{"a deletion may be repeated", func(r *topic, st *storage) {
			remove := r.deletion
			r.deletion = func(pod *v1.Pod) error {
				if st.find(func(p *v1.Pod) bool { return p.UID == pod.UID }) == nil {
					return errors.New("no such pod")
				}
				return remove(pod)
			}
		}},
		{"a pod may return with the UID of a deleted one", func(r *topic, st *storage) {
			deleted, remove := map[types.UID]bool{}, r.deletion
			r.deletion = func(pod *v1.Pod) error { deleted[pod.UID] = true; return remove(pod) }
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				if deleted[pod.UID] {
					return nil
				}
				return st.write(ctx, pod, s)
			}
		}},
		{"a deletion removes no other pod with the name", func(r *topic, st *storage) {
			r.deletion = func(pod *v1.Pod) error {
				st.delete(func(p *v1.Pod) bool { return p.Name == pod.Name })
				return nil
			}
		}},
		{"a Writer brings every pod to its newest status", func(r *topic, st *storage) {
			r.SinkFunc = func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
				if pod.Name == "pod-7" && s.Phase == v1.PodFailed {
					return nil
				}
				return st.write(ctx, pod, s)
			}
		}},
	} {
		t.Run(d.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.NoError(t, runRule(t, d.rule, receiverSubject(func(*topic, *storage) {})))
				err := runRule(t, d.rule, receiverSubject(d.spoil))
				require.Error(t, err)
				require.NotContains(t, err.Error(), "%!")
				time.Sleep(3 * ruleTimeout) // for the remains of a defect
			})
		})
	}
	panics := func(r *topic, _ *storage) { r.deletion = func(*v1.Pod) error { panic("oops") } }
	require.ErrorContains(t, runRule(t, "a deleted pod stays absent", receiverSubject(panics)), "oops")
}

func runRule(t *testing.T, name string, h Subject) error {
	for _, c := range cases {
		if c.name == name {
			require.True(t, c.needs(h))
			ctx, cancel := context.WithTimeout(t.Context(), ruleTimeout)
			defer cancel()
			return c.run(ctx, h)
		}
	}
	t.Fatalf("no rule %q", name)
	return nil
}
