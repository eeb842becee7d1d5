package statustest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
)

// Op is the operation of a call.
type Op string

// The operations of a status.Sink.
const (
	Get    Op = "get"
	Patch  Op = "patch"
	Delete Op = "delete"
)

// Call is one call of a Sink.
type Call struct {
	Op  Op
	Ref status.Ref
	// Old and New are the arguments of a patch.
	Old, New *v1.PodStatus
	// At is the start of the call, Ended its end, or zero while it is in progress.
	At, Ended time.Time
	// Applied is true if the call took effect. Status is the status after a patch. Err is the
	// returned error.
	Applied bool
	Status  *v1.PodStatus
	Err     error
}

// Fault describes the failure of a call. The zero value means no failure.
type Fault struct {
	// Latency is added to the latency of the sink.
	Latency time.Duration
	// Err is returned; the call does not take effect.
	Err error
	// LostAnswer is returned although the call takes effect.
	LostAnswer error
	// Hang makes the call block until its context is done.
	Hang bool
	// Deaf, if not nil, makes the call block until Deaf is closed, even if its context is done.
	Deaf <-chan struct{}
	// Panic, if not nil, is the value of a panic of the call.
	Panic any
}

// Sink is an in-memory status.Sink. Use NewSink. It is safe for concurrent use.
type Sink struct {
	mu       sync.Mutex
	pods     map[types.NamespacedName]*v1.Pod
	version  uint64
	latency  time.Duration
	down     error
	fail     func(Call) Fault
	watchers []func(*v1.Pod)
	// changed are the pods whose change the watchers have not received; notifying is true while a
	// goroutine calls them.
	changed   []*v1.Pod
	notifying bool
	calls     []*Call
	open      map[status.Ref]int
	overlaps  []status.Ref
	peak      int
}

var _ status.Sink = (*Sink)(nil)

// NewSink returns a Sink without pods.
func NewSink() *Sink {
	return &Sink{pods: map[types.NamespacedName]*v1.Pod{}, open: map[status.Ref]int{}}
}

// SetLatency sets the duration of each call.
func (s *Sink) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = d
}

// SetDown makes every call return err, after its latency, unless the call has a Fault.Err. nil ends
// the outage.
func (s *Sink) SetDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// Fail sets the function that returns the fault of each call. nil removes it. It is called
// without a lock.
func (s *Sink) Fail(fail func(Call) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// Watch registers a callback. It is called with every pod that is created or changed, not for
// removals, one call at a time, in the order of the changes and without a lock. It is called in the
// goroutine of the change, or of a concurrent one that returns later. It must not change the pod.
func (s *Sink) Watch(notify func(*v1.Pod)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, notify)
}

// Put creates or replaces a pod, like another client. It stores a copy with a new resource
// version, and returns a copy of the stored pod.
func (s *Sink) Put(pod *v1.Pod) *v1.Pod {
	return s.change(nameOf(pod.Namespace, pod.Name), func(*v1.Pod) *v1.Pod { return pod.DeepCopy() })
}

// Change changes a pod, like another client. It returns the changed pod, or nil if it does not
// exist.
func (s *Sink) Change(namespace, name string, change func(*v1.Pod)) *v1.Pod {
	return s.change(nameOf(namespace, name), func(pod *v1.Pod) *v1.Pod {
		if pod != nil {
			change(pod)
		}
		return pod
	})
}

// MarkDeleted requests a pod's deletion, like "kubectl delete".
func (s *Sink) MarkDeleted(namespace, name string) *v1.Pod {
	return s.Change(namespace, name, func(pod *v1.Pod) {
		pod.DeletionTimestamp = new(metav1.Now())
	})
}

// Remove removes a pod at once, like another client.
func (s *Sink) Remove(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, nameOf(namespace, name))
}

// Pod returns a copy of a pod, or nil.
func (s *Sink) Pod(namespace, name string) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[nameOf(namespace, name)].DeepCopy()
}

// Pods returns copies of all pods, sorted by namespace and name.
func (s *Sink) Pods() (out []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.SortedFunc(maps.Keys(s.pods), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		out = append(out, s.pods[name].DeepCopy())
	}
	return out
}

// Calls returns the calls so far, or only the calls of the given kinds.
func (s *Sink) Calls(ops ...Op) (out []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if len(ops) == 0 || slices.Contains(ops, c.Op) {
			out = append(out, *c)
		}
	}
	return out
}

// ForgetCalls resets the recorded calls and Peak.
func (s *Sink) ForgetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.peak = nil, 0
}

// Peak returns the maximum number of pods with a call in progress at the same time.
func (s *Sink) Peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}

// Overlaps returns the pods with overlapping calls. A writer.Writer never overlaps calls for one
// pod.
func (s *Sink) Overlaps() []status.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.overlaps)
}

// Get implements status.Sink.
func (s *Sink) Get(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
	return s.do(ctx, &Call{Op: Get, Ref: ref}, func(pod *v1.Pod, _ *Call) (*v1.Pod, error) { return pod, nil })
}

// Patch implements status.Sink.
func (s *Sink) Patch(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
	return s.do(ctx, &Call{Op: Patch, Ref: ref, Old: old, New: new}, func(pod *v1.Pod, c *Call) (*v1.Pod, error) {
		if err := sameUID(pod, ref); err != nil {
			return nil, err
		}
		changed := *pod
		changed.Status = *status.Patched(&pod.Status, old, new).DeepCopy()
		c.Applied, c.Status = true, &changed.Status
		return s.keep(&changed), nil
	})
}

// Delete implements status.Sink.
func (s *Sink) Delete(ctx context.Context, ref status.Ref) error {
	_, err := s.do(ctx, &Call{Op: Delete, Ref: ref}, func(pod *v1.Pod, c *Call) (*v1.Pod, error) {
		if err := sameUID(pod, ref); err != nil {
			return nil, err
		}
		delete(s.pods, nameOf(ref.Namespace, ref.Name))
		c.Applied = true
		return nil, nil
	})
	return err
}

func sameUID(pod *v1.Pod, ref status.Ref) error {
	if pod.UID != ref.UID {
		return fmt.Errorf("statustest: pod %s has UID %q: %w", ref, pod.UID, status.ErrConflict)
	}
	return nil
}

// errDown is the error of a call with Fault.Panic.
var errDown = errors.New("statustest: failure requested by the test")

// do executes a call: it waits, applies its fault, and takes effect.
func (s *Sink) do(ctx context.Context, c *Call, effect func(*v1.Pod, *Call) (*v1.Pod, error)) (*v1.Pod, error) {
	fault, down := s.begin(c)
	if fault.Panic != nil {
		s.end(c, fmt.Errorf("%w: panic: %v", errDown, fault.Panic))
		panic(fault.Panic)
	}
	if err := wait(ctx, fault); err != nil {
		return nil, s.end(c, err)
	}
	if err := cmp.Or(fault.Err, down); err != nil {
		return nil, s.end(c, err)
	}
	s.mu.Lock()
	pod := s.pods[nameOf(c.Ref.Namespace, c.Ref.Name)]
	var err error
	if pod == nil {
		err = fmt.Errorf("statustest: pod %s: %w", c.Ref, status.ErrNotFound)
	} else if pod, err = effect(pod, c); c.Applied && pod != nil {
		s.changed = append(s.changed, pod)
	}
	s.mu.Unlock()
	s.notify()
	if err == nil {
		err = fault.LostAnswer
	}
	if s.end(c, err) != nil {
		return nil, err
	}
	return pod.DeepCopy(), nil
}

func (s *Sink) begin(c *Call) (Fault, error) {
	s.mu.Lock()
	c.At = time.Now()
	s.calls = append(s.calls, c)
	if s.open[c.Ref]++; s.open[c.Ref] > 1 {
		s.overlaps = append(s.overlaps, c.Ref)
	}
	s.peak = max(s.peak, len(s.open))
	fail, fault, down := s.fail, Fault{}, s.down
	latency := s.latency
	seen := *c
	s.mu.Unlock()
	if fail != nil {
		fault = fail(seen)
	}
	fault.Latency += latency
	return fault, down
}

func (s *Sink) end(c *Call, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Ended, c.Err = time.Now(), err
	if s.open[c.Ref]--; s.open[c.Ref] == 0 {
		delete(s.open, c.Ref)
	}
	return err
}

func wait(ctx context.Context, f Fault) error {
	if f.Deaf != nil {
		<-f.Deaf
	}
	if f.Hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.Latency > 0 {
		timer := time.NewTimer(f.Latency)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	return ctx.Err()
}

func (s *Sink) change(name types.NamespacedName, change func(*v1.Pod) *v1.Pod) *v1.Pod {
	s.mu.Lock()
	pod := change(s.pods[name].DeepCopy())
	if pod == nil {
		s.mu.Unlock()
		return nil
	}
	s.changed = append(s.changed, s.keep(pod))
	s.mu.Unlock()
	s.notify()
	return pod.DeepCopy()
}

// notify calls the watchers with the changed pods, unless another goroutine does. That one then
// also calls them with the newest change.
func (s *Sink) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notifying {
		return
	}
	s.notifying = true
	defer func() { s.notifying = false }()
	for len(s.changed) > 0 {
		pod, watchers := s.changed[0], s.watchers
		s.changed = s.changed[1:]
		s.mu.Unlock()
		func() {
			defer s.mu.Lock()
			for _, call := range watchers {
				call(pod)
			}
		}()
	}
}

func (s *Sink) keep(pod *v1.Pod) *v1.Pod {
	s.version++
	pod.ResourceVersion = strconv.FormatUint(s.version, 10)
	s.pods[nameOf(pod.Namespace, pod.Name)] = pod
	return pod
}

func nameOf(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
