package writer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

var errDown = errors.New("no route")

// rig is a Writer with an in-memory sink, in a bubble.
type rig struct {
	*writer.Writer
	t    *testing.T
	sink *statustest.Sink

	mu      sync.Mutex
	pods    map[types.UID]*v1.Pod // returned by Config.Pod
	mirrors map[types.UID]*v1.Pod // returned by Config.Mirror
	mayRun  map[types.UID]bool
	changed []types.UID
	behind  []time.Duration
}

// bubble runs a test with a rig. configure may be nil.
func bubble(t *testing.T, configure func(*writer.Config), test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			t: t, sink: statustest.NewSink(),
			pods: map[types.UID]*v1.Pod{}, mirrors: map[types.UID]*v1.Pod{}, mayRun: map[types.UID]bool{},
		}
		cfg := writer.Config{
			Sinks:        sinks(r.sink),
			Pod:          lookup(r, r.pods),
			Mirror:       lookup(r, r.mirrors),
			MayStillRun:  lookup(r, r.mayRun),
			TranslateUID: r.translate,
			OnChange:     func(uid types.UID) { r.mu.Lock(); defer r.mu.Unlock(); r.changed = append(r.changed, uid) },
			Metrics: writer.Metrics{
				OnSynced: func(_ string, d time.Duration) { r.mu.Lock(); defer r.mu.Unlock(); r.behind = append(r.behind, d) },
			},
		}
		if configure != nil {
			configure(&cfg)
		}
		r.Writer = newWriter(t, cfg)
		stop := start(t, r.Writer)
		synctest.Wait()
		test(r)
		require.NoError(t, stop())
		require.Empty(t, r.sink.Overlaps(), "one write at a time per pod")
	})
}

func newWriter(t testing.TB, cfg writer.Config) *writer.Writer {
	w, err := writer.New(cfg)
	require.NoError(t, err)
	return w
}

// start runs a Writer. stop ends Run and returns its error.
func start(t testing.TB, w *writer.Writer) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

func sinks(s status.Sink) []writer.NamedSink { return []writer.NamedSink{{Name: "api", Sink: s}} }

// lookup returns a function that reads a map of the rig; put changes a map.
func lookup[V any](r *rig, m map[types.UID]V) func(types.UID) V {
	return func(uid types.UID) V { r.mu.Lock(); defer r.mu.Unlock(); return m[uid] }
}

func put[V any](r *rig, m map[types.UID]V, uid types.UID, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m[uid] = v
}

func (r *rig) translate(uid types.UID) types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	for static, mirror := range r.mirrors {
		if mirror != nil && mirror.UID == uid {
			return static
		}
	}
	return uid
}

// Explain returns the state of the pod's status at the only sink.
func (r *rig) Explain(uid types.UID) (x podwright.Explanation, ok bool) {
	for _, x := range r.Writer.Explain(uid) {
		x.Part = ""
		return x, true
	}
	return x, false
}

// Observe passes a pod as seen at the only sink.
func (r *rig) Observe(pod *v1.Pod) { r.Writer.Observe("api", pod) }

func (r *rig) fail(op statustest.Op, fault statustest.Fault) {
	r.sink.Fail(func(c statustest.Call) statustest.Fault {
		if c.Op == op {
			return fault
		}
		return statustest.Fault{}
	})
}

// pass advances the time by d and runs all due actions.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// written returns the number of effective patches since the last call.
func (r *rig) written() int {
	n := 0
	for _, c := range r.sink.Calls(statustest.Patch) {
		if c.Applied {
			n++
		}
	}
	r.sink.ForgetCalls()
	return n
}

func (r *rig) pod(name string) *v1.Pod { return r.sink.Pod("ns", name) }

// newPod returns a pod with containers that never restart.
func newPod(name string, containers ...string) *v1.Pod {
	if containers == nil {
		containers = []string{"app"}
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyNever},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c, Image: "image"})
	}
	return pod
}

func withInit(name string) *v1.Pod {
	pod := newPod(name)
	pod.Spec.InitContainers = []v1.Container{{Name: "init"}}
	return pod
}

func running(pod *v1.Pod, ready bool) v1.PodStatus {
	value, started := v1.ConditionFalse, true
	if ready {
		value = v1.ConditionTrue
	}
	s := v1.PodStatus{Phase: v1.PodRunning, ObservedGeneration: pod.Generation, Conditions: []v1.PodCondition{
		{Type: v1.PodReady, Status: value}, {Type: v1.ContainersReady, Status: value}, {Type: v1.PodScheduled, Status: v1.ConditionTrue},
	}}
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, Image: c.Image, ContainerID: "fake://" + pod.Name + "-" + c.Name, Ready: ready, Started: &started,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
		})
	}
	return s
}

func ended(pod *v1.Pod, code int32) v1.PodStatus {
	s := running(pod, false)
	s.Phase = v1.PodSucceeded
	if code != 0 {
		s.Phase = v1.PodFailed
	}
	for i := range s.ContainerStatuses {
		s.ContainerStatuses[i].State = terminated(code)
	}
	return s
}

func terminated(code int32) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}}
}

func initializing() v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "PodInitializing"}}
}

func withMessage(s v1.PodStatus, format string, args ...any) v1.PodStatus {
	s.Message = fmt.Sprintf(format, args...)
	return s
}

// value returns a condition's status, or "absent".
func value(s *v1.PodStatus, t v1.PodConditionType) string {
	if c := podfacts.Condition(s.Conditions, t); c != nil {
		return string(c.Status)
	}
	return "absent"
}
