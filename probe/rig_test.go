package probe_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/probetest"
)

// rig is a Manager in a bubble with a scripted Prober for all handlers.
type rig struct {
	*probe.Manager
	t      *testing.T
	prober *probetest.Prober
	begin  time.Time
	stop   context.CancelFunc
	done   chan error

	mu       sync.Mutex
	statuses map[types.UID]*v1.PodStatus
	changes  []probe.Change
	probed   []probe.Probed
	removed  []probe.Series
	events   []event
}

type event struct {
	ref                        v1.ObjectReference
	eventtype, reason, message string
}

// inBubble runs a test with a Manager whose agent started an hour ago.
func inBubble(t *testing.T, change func(*probe.Config), test func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, change)
		r.start()
		test(r)
		r.stop()
		require.NoError(t, <-r.done)
	})
}

func execOnly() probe.Config {
	return probe.Config{
		Probers: map[probe.Handler]probe.Prober{probe.Exec: &probetest.Prober{}},
		Status:  func(types.UID) *v1.PodStatus { return nil },
	}
}

func newRig(t *testing.T, change func(*probe.Config)) *rig {
	r := &rig{t: t, prober: &probetest.Prober{}, begin: time.Now(), statuses: map[types.UID]*v1.PodStatus{}, done: make(chan error, 1)}
	cfg := probe.Config{
		Probers: map[probe.Handler]probe.Prober{probe.Exec: r.prober, probe.HTTPGet: r.prober, probe.TCPSocket: r.prober, probe.GRPC: r.prober},
		Status:  r.status, OnChange: record(r, &r.changes),
		Event: func(ref v1.ObjectReference, eventtype, reason, message string) {
			record(r, &r.events)(event{ref, eventtype, reason, message})
		},
		Metrics: probe.Metrics{OnProbe: record(r, &r.probed), OnRemove: record(r, &r.removed)},
	}
	probe.SetAgentStart(&cfg, r.begin.Add(-time.Hour)) // first probes are not spread
	if change != nil {
		change(&cfg)
	}
	m, err := probe.New(cfg)
	require.NoError(t, err)
	r.Manager = m
	return r
}

func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.stop = cancel
	go func() { r.done <- r.Run(ctx) }()
}

func (r *rig) status(uid types.UID) *v1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.statuses[uid]
}

// sleep advances the time and runs all due actions.
func (r *rig) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) set(pod *v1.Pod, containers ...v1.ContainerStatus) {
	r.store(pod, containers...)
	require.NoError(r.t, r.AddPod(pod))
	synctest.Wait()
}

func (r *rig) store(pod *v1.Pod, containers ...v1.ContainerStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"}
	for _, c := range containers {
		if pod.Spec.InitContainers != nil && pod.Spec.InitContainers[0].Name == c.Name {
			s.InitContainerStatuses = append(s.InitContainerStatuses, c)
			continue
		}
		s.ContainerStatuses = append(s.ContainerStatuses, c)
	}
	r.statuses[pod.UID] = s
}

func (r *rig) results(pod *v1.Pod) map[string]probe.Verdict {
	out := map[string]probe.Verdict{}
	for _, s := range r.Results(pod.UID) {
		out[s.Container+" "+s.Type.String()] = s.Result
	}
	return out
}

func (r *rig) when(container string, t probe.Type) []time.Duration {
	out := []time.Duration{}
	for _, c := range r.prober.CallsOf(container, t) {
		out = append(out, c.Began.Sub(r.begin))
	}
	return out
}

func (r *rig) changesOf(t probe.Type) []probe.Verdict {
	var out []probe.Verdict
	for _, c := range r.changeList() {
		if c.Type == t {
			out = append(out, c.Result)
		}
	}
	return out
}

func record[T any](r *rig, list *[]T) func(T) {
	return func(value T) {
		r.mu.Lock()
		defer r.mu.Unlock()
		*list = append(*list, value)
	}
}

func snapshot[T any](r *rig, list *[]T) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(*list)
}

func (r *rig) eventList() []event          { return snapshot(r, &r.events) }
func (r *rig) changeList() []probe.Change  { return snapshot(r, &r.changes) }
func (r *rig) probedList() []probe.Probed  { return snapshot(r, &r.probed) }
func (r *rig) removedList() []probe.Series { return snapshot(r, &r.removed) }

func (r *rig) worker(pod *v1.Pod, container string, t probe.Type) probe.Worker {
	for _, w := range r.Workers(pod.UID) {
		if w.Container == container && w.Type == t {
			return w
		}
	}
	return probe.Worker{}
}

type probes map[probe.Type]*v1.Probe

func container(name string, p probes) v1.Container {
	return v1.Container{Name: name, LivenessProbe: p[probe.Liveness], ReadinessProbe: p[probe.Readiness], StartupProbe: p[probe.Startup]}
}

func podOf(uid types.UID, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod-" + string(uid), Namespace: "ns", UID: uid},
		Spec:       v1.PodSpec{Containers: containers},
	}
}

func handler(h probe.Handler) v1.ProbeHandler {
	switch h {
	case probe.HTTPGet:
		get := &v1.HTTPGetAction{}
		get.Port.IntVal = 80
		return v1.ProbeHandler{HTTPGet: get}
	case probe.TCPSocket:
		tcp := &v1.TCPSocketAction{}
		tcp.Port.IntVal = 80
		return v1.ProbeHandler{TCPSocket: tcp}
	case probe.GRPC:
		return v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 80}}
	case probe.Exec:
	}
	return v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check"}}}
}

// every returns an exec probe with that period and a failure threshold of 1.
func every(seconds int32) *v1.Probe {
	return &v1.Probe{ProbeHandler: handler(probe.Exec), PeriodSeconds: seconds, FailureThreshold: 1}
}

// running returns the status of a container that started now and has passed its startup.
func running(name, id string) v1.ContainerStatus { return runningSince(name, id, time.Now()) }

func runningSince(name, id string, at time.Time) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: name, ContainerID: id, Started: new(true),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}},
	}
}

func starting(name, id string) v1.ContainerStatus {
	c := running(name, id)
	c.Started = new(false)
	return c
}

func exited(name, id string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: name, ContainerID: id, Started: new(false),
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}},
	}
}

func succeed(more ...probetest.Step) []probetest.Step {
	return append(more, probetest.Step{Verdict: probe.Success})
}

var fails = probetest.Step{Verdict: probe.Failure, Output: "no"}
