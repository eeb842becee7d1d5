package statustest

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/status"
)

// subject returns an in-memory sink, optionally behind a defective one.
func subject(front func(*Sink) status.Sink) Subject {
	sink := NewSink()
	h := Subject{Sink: sink, Create: sink.Put, Pod: sink.Pod, Remove: sink.Remove}
	h.Change = func(namespace, name string, change func(*v1.PodStatus)) {
		sink.Change(namespace, name, func(pod *v1.Pod) { change(&pod.Status) })
	}
	h.Fail = func(fail bool) {
		sink.SetDown(nil)
		if fail {
			sink.SetDown(errors.New("down"))
		}
	}
	h.Hang = func(hang bool) { sink.Fail(func(Call) Fault { return Fault{Hang: hang} }) }
	if front != nil {
		h.Sink = front(sink)
	}
	return h
}

// The in-memory sink implements the contract.
func TestSink(t *testing.T) {
	Run(t, func(testing.TB) Subject { return subject(nil) })
}

func TestSlowSink(t *testing.T) {
	Run(t, func(testing.TB) Subject {
		h := subject(nil)
		h.Sink.(*Sink).SetLatency(time.Millisecond)
		return h
	})
}

// Watchers receive concurrent changes in their order, and may call the sink.
func TestWatchInOrder(t *testing.T) {
	s := NewSink()
	var versions []int
	s.Watch(func(pod *v1.Pod) {
		version, err := strconv.Atoi(pod.ResourceVersion)
		require.NoError(t, err)
		versions = append(versions, version)
		runtime.Gosched()
		if version == 1 {
			s.Change("ns", "a", func(*v1.Pod) {})
		}
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				s.Put(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}})
			}
		})
	}
	all.Wait()
	require.Len(t, versions, 801)
	require.IsIncreasing(t, versions)
}

func TestHarnessIsChecked(t *testing.T) {
	h := subject(nil)
	require.NoError(t, h.complete())
	for field, take := range map[string]func(*Subject){
		"Sink":   func(h *Subject) { h.Sink = nil },
		"Create": func(h *Subject) { h.Create = nil },
		"Pod":    func(h *Subject) { h.Pod = nil },
		"Change": func(h *Subject) { h.Change = nil },
		"Remove": func(h *Subject) { h.Remove = nil },
	} {
		broken := h
		take(&broken)
		require.ErrorContains(t, broken.complete(), field)
	}
}

// The error of a violation contains the returned values, even if the call returned no error.
func TestViolationsAreReadable(t *testing.T) {
	h := subject(func(s *Sink) status.Sink {
		return &broken{Sink: s,
			get:    func(context.Context, status.Ref) (*v1.Pod, error) { return nil, nil },
			patch:  func(context.Context, status.Ref, *v1.PodStatus, *v1.PodStatus) (*v1.Pod, error) { return nil, nil },
			delete: func(context.Context, status.Ref) error { return nil },
		}
	})
	require.NoError(t, h.complete())
	for name, rule := range map[string]func(*fixture) error{
		"getNone": getNone, "patchOther": patchOther, "patchNone": patchNone, "deleteOther": deleteOther, "deleteNone": deleteNone,
	} {
		err := rule(newFixture(t.Context(), h))
		require.ErrorContains(t, err, "<nil> instead of", name)
		require.NotContains(t, err.Error(), "%!", name)
		for _, pod := range []string{"pod", "nobody"} {
			h.Remove(namespace, pod)
		}
	}
}

// A wrong status is reported as the list of its wrong fields.
func TestWrongStatusIsReportedAsDifference(t *testing.T) {
	pod := &v1.Pod{Status: *second()}
	pod.Status.Phase, pod.Status.StartTime = v1.PodFailed, nil
	pod.Status.PodIPs = append(pod.Status.PodIPs, v1.PodIP{IP: "10.0.0.9"})
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode = 4
	pod.Status.Conditions[0], pod.Status.Conditions[1] = pod.Status.Conditions[1], is("example.com/gate", v1.ConditionTrue, 0)
	require.EqualError(t, shows(pod, second()), `the status differs:
conditions[PodReadyToStartContainers]: absent, must be {"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:01:00Z","status":"True","type":"PodReadyToStartContainers"}
containerStatuses[0].lastState.terminated.exitCode: 4, must be 3
phase: "Failed", must be "Running"
podIPs[2]: {"ip":"10.0.0.9"}, must be absent
startTime: absent, must be "2026-01-02T03:01:00Z"`)
	pod.Status = *second()
	pod.Status.Conditions[2].LastTransitionTime = at(7)
	require.EqualError(t, shows(pod, second()), "the status differs:\nconditions[Ready].lastTransitionTime: \"2026-01-02T03:07:00Z\", must be \"2026-01-02T03:01:00Z\"")
}

type broken struct {
	*Sink
	get    func(context.Context, status.Ref) (*v1.Pod, error)
	patch  func(context.Context, status.Ref, *v1.PodStatus, *v1.PodStatus) (*v1.Pod, error)
	delete func(context.Context, status.Ref) error
}

// before returns a defect that changes copies of the arguments of patches.
func before(change func(old, new *v1.PodStatus)) func(*broken) {
	return func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			old, new = old.DeepCopy(), new.DeepCopy()
			change(old, new)
			return b.Sink.Patch(ctx, ref, old, new)
		}
	}
}

func (b *broken) Get(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
	if b.get == nil {
		return b.Sink.Get(ctx, ref)
	}
	return b.get(ctx, ref)
}

func (b *broken) Patch(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
	if b.patch == nil {
		return b.Sink.Patch(ctx, ref, old, new)
	}
	return b.patch(ctx, ref, old, new)
}

func (b *broken) Delete(ctx context.Context, ref status.Ref) error {
	if b.delete == nil {
		return b.Sink.Delete(ctx, ref)
	}
	return b.delete(ctx, ref)
}

// anyUID returns ref with the UID of the current pod of its name.
func anyUID(s *Sink, ref status.Ref) status.Ref {
	if pod := s.Pod(ref.Namespace, ref.Name); pod != nil {
		ref.UID = pod.UID
	}
	return ref
}

// whole is a patch that uses new as the whole status.
func whole(b *broken) func(context.Context, status.Ref, *v1.PodStatus, *v1.PodStatus) (*v1.Pod, error) {
	return func(ctx context.Context, ref status.Ref, _, new *v1.PodStatus) (*v1.Pod, error) {
		now, err := b.Sink.Get(ctx, ref)
		if err != nil {
			return nil, err
		}
		return b.Sink.Patch(ctx, ref, &now.Status, new)
	}
}

// defects are sinks with one defect each. At least one of the listed rules must detect it.
var defects = []struct {
	name  string
	found []string
	spoil func(*broken)
}{
	{"Get from a cache", []string{"as it is now"}, func(b *broken) {
		cache := map[status.Ref]*v1.Pod{}
		b.get = func(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
			if ref.Name != "pod" {
				return b.Sink.Get(ctx, ref)
			}
			if pod := cache[ref]; pod != nil {
				return pod, nil
			}
			pod, err := b.Sink.Get(ctx, ref)
			cache[ref] = pod
			return pod, err
		}
	}},
	{"Get insists on the UID", []string{"and any UID"}, func(b *broken) {
		b.get = func(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
			pod, err := b.Sink.Get(ctx, ref)
			if err == nil && pod.UID != ref.UID {
				return nil, status.ErrNotFound
			}
			return pod, err
		}
	}},
	{"Get hides a missing pod", []string{"Get returns ErrNotFound for a missing pod"}, func(b *broken) {
		b.get = func(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
			pod, err := b.Sink.Get(ctx, ref)
			if errors.Is(err, status.ErrNotFound) {
				return nil, nil
			}
			return pod, err
		}
	}},
	{"Patch takes new for the whole status", []string{"conditions of other components"}, func(b *broken) { b.patch = whole(b) }},
	{"Patch does not write the phase", []string{"writes all differences"}, before(func(old, new *v1.PodStatus) { new.Phase = old.Phase })},
	{"Patch removes no condition", []string{"removes fields and list elements"}, before(func(old, _ *v1.PodStatus) { old.Conditions = nil })},
	{"Patch empties no list", []string{"removes fields and list elements"}, before(func(old, new *v1.PodStatus) {
		if len(new.ContainerStatuses) == 0 {
			new.ContainerStatuses = old.ContainerStatuses
		}
	})},
	{"Patch sets transition times itself", []string{"writes all differences"}, before(func(_, new *v1.PodStatus) {
		for i := range new.Conditions {
			new.Conditions[i].LastTransitionTime = at(59)
		}
	})},
	{"Patch returns the pod before the write", []string{"returns the pod after the write"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			before, _ := b.Sink.Get(ctx, ref)
			_, err := b.Sink.Patch(ctx, ref, old, new)
			return before, err
		}
	}},
	{"Patch returns its argument", []string{"returns the pod after the write"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			pod, err := b.Sink.Patch(ctx, ref, old, new)
			if err == nil {
				pod.Status = *new
			}
			return pod, err
		}
	}},
	{"Patch loses its resource version", []string{"returns the pod after the write"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			pod, err := b.Sink.Patch(ctx, ref, old, new)
			if err == nil {
				pod.ResourceVersion = "0"
			}
			return pod, err
		}
	}},
	{"Patch works once", []string{"a call may be repeated"}, func(b *broken) {
		done := map[v1.PodPhase]bool{}
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			if ref.Name != "pod" {
				return b.Sink.Patch(ctx, ref, old, new)
			}
			if done[new.Phase] {
				return nil, errors.New("again")
			}
			done[new.Phase] = true
			return b.Sink.Patch(ctx, ref, old, new)
		}
	}},
	{"Patch ignores the UID", []string{"Patch changes no pod with another UID"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			return b.Sink.Patch(ctx, anyUID(b.Sink, ref), old, new)
		}
	}},
	{"Patch is silent about another UID", []string{"Patch changes no pod with another UID"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			pod, err := b.Sink.Patch(ctx, ref, old, new)
			if errors.Is(err, status.ErrConflict) {
				return b.Sink.Get(ctx, ref)
			}
			return pod, err
		}
	}},
	{"Patch creates missing pods", []string{"Patch creates no pod"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			if b.Pod(ref.Namespace, ref.Name) == nil {
				pod := &v1.Pod{Status: *new}
				pod.Namespace, pod.Name, pod.UID = ref.Namespace, ref.Name, ref.UID
				return b.Put(pod), nil
			}
			return b.Sink.Patch(ctx, ref, old, new)
		}
	}},
	{"Patch changes its arguments", []string{"a call does not change its arguments"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			pod, err := b.Sink.Patch(ctx, ref, old, new)
			overwrite(old)
			return pod, err
		}
	}},
	{"returned pods change later", []string{"returned pods do not change later"}, func(b *broken) {
		handed := map[status.Ref]*v1.Pod{}
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			pod, err := b.Sink.Patch(ctx, ref, old, new)
			if err != nil || ref.Name != "pod" {
				return pod, err
			}
			if handed[ref] == nil {
				handed[ref] = pod
				return pod, err
			}
			pod.DeepCopyInto(handed[ref])
			return handed[ref], nil
		}
	}},
	{"concurrent calls disturb each other", []string{"may be concurrent"}, func(b *broken) {
		var mu sync.Mutex
		n := 0
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			mu.Lock()
			n++
			fail := n == 7
			mu.Unlock()
			if fail {
				return nil, errors.New("busy")
			}
			return b.Sink.Patch(ctx, ref, old, new)
		}
	}},
	{"Patch ignores the end of its context", []string{"a call returns when its context is done"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			if ctx.Err() != nil {
				time.Sleep(2 * ruleTimeout)
			}
			return b.Sink.Patch(ctx, ref, old, new)
		}
	}},
	{"the end of the context is reported as a missing pod", []string{"a call returns when its context is done"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			pod, err := b.Sink.Patch(ctx, ref, old, new)
			if ctx.Err() != nil {
				return nil, status.ErrNotFound
			}
			return pod, err
		}
	}},
	{"success is reported without effect after the end of the context", []string{"a call returns when its context is done"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			pod, err := b.Sink.Patch(ctx, ref, old, new)
			if ctx.Err() != nil {
				return b.Pod(ref.Namespace, ref.Name), nil
			}
			return pod, err
		}
	}},
	{"Delete only marks", []string{"Delete removes the pod at once"}, func(b *broken) {
		b.delete = func(_ context.Context, ref status.Ref) error {
			b.MarkDeleted(ref.Namespace, ref.Name)
			return nil
		}
	}},
	{"Delete ignores the UID", []string{"Delete removes no pod with another UID"}, func(b *broken) {
		b.delete = func(ctx context.Context, ref status.Ref) error { return b.Sink.Delete(ctx, anyUID(b.Sink, ref)) }
	}},
	{"Delete succeeds for a missing pod", []string{"Delete returns ErrNotFound for a missing pod"}, func(b *broken) {
		b.delete = func(ctx context.Context, ref status.Ref) error {
			if err := b.Sink.Delete(ctx, ref); !errors.Is(err, status.ErrNotFound) {
				return err
			}
			return nil
		}
	}},
	{"an older status follows a newer one", []string{"a newer status is not replaced by an older one"}, func(b *broken) {
		var last *v1.PodStatus
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			pod, err := b.Sink.Patch(ctx, ref, old, new)
			if ref.Name != "pod" {
				return pod, err
			}
			if last != nil && err == nil {
				pod, err = b.Sink.Patch(ctx, ref, new, last)
			}
			last = new
			return pod, err
		}
	}},
	{"failures are hidden", []string{"a refused write is an error"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			_, _ = b.Sink.Patch(ctx, ref, old, new)
			return b.Pod(ref.Namespace, ref.Name), nil
		}
	}},
	{"some writes are lost", []string{"a Writer brings every pod"}, func(b *broken) {
		b.patch = func(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
			pod, err := b.Sink.Get(ctx, ref)
			if err == nil && pod.Name == "pod-7" {
				pod.Status = *new
				return pod, nil
			}
			return b.Sink.Patch(ctx, ref, old, new)
		}
	}},
}

// Each defect is detected by a rule about it.
func TestDefectsAreFound(t *testing.T) {
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failed []string
				for _, c := range cases {
					h := subject(func(s *Sink) status.Sink {
						b := &broken{Sink: s}
						d.spoil(b)
						return b
					})
					if !c.needs(h) {
						continue
					}
					ctx, cancel := context.WithTimeout(t.Context(), ruleTimeout)
					if err := c.run(ctx, h); err != nil {
						failed = append(failed, c.name)
						require.NotContains(t, err.Error(), "%!")
					}
					cancel()
				}
				time.Sleep(3 * ruleTimeout) // for the remains of a defect
				for _, part := range d.found {
					require.Contains(t, strings.Join(failed, "; "), part)
				}
			})
		})
	}
}
