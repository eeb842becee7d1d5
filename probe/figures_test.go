//go:build unix

package probe

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// node is a Manager with pods of one running container each, in real time.
type node struct {
	*Manager
	pods     []*v1.Pod
	statuses map[types.UID]*v1.PodStatus

	mu    sync.Mutex
	count int // probes
	most  int // most goroutines at once
}

func newNode(b *testing.B, probes int, period int32) *node {
	n := &node{statuses: map[types.UID]*v1.PodStatus{}}
	probe := &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}},
		PeriodSeconds: period, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	probe.TCPSocket.Port.IntVal = 80
	http := probe.DeepCopy()
	http.ProbeHandler = v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: probe.TCPSocket.Port}}
	for i := range probes / 2 {
		uid := types.UID(fmt.Sprintf("7d2c1b1e-0000-0000-0000-%012d", i))
		n.pods = append(n.pods, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: uid},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", LivenessProbe: probe, ReadinessProbe: http}}},
		})
		n.statuses[uid] = &v1.PodStatus{
			Phase: v1.PodRunning, PodIP: "10.0.0.1",
			ContainerStatuses: []v1.ContainerStatus{{
				Name: "c", ContainerID: "containerd://" + string(uid), Started: new(true),
				State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))}},
			}},
		}
	}
	prober := ProberFunc(func(context.Context, Target) (Result, error) {
		n.mu.Lock()
		n.most, n.count = max(n.most, runtime.NumGoroutine()), n.count+1
		n.mu.Unlock()
		return Result{Verdict: Success, Output: "ok"}, nil
	})
	m, err := New(Config{
		Probers:  map[Handler]Prober{TCPSocket: prober, HTTPGet: prober},
		Status:   func(uid types.UID) *v1.PodStatus { return n.statuses[uid] },
		OnChange: func(Change) {},
	})
	require.NoError(b, err)
	n.Manager = m
	return n
}

// measure runs for one period and then for the window, and reports the cost.
func (n *node) measure(b *testing.B, period, window time.Duration) {
	before := heapNow()
	for _, pod := range n.pods {
		require.NoError(b, n.AddPod(pod))
	}
	b.ReportMetric(float64(heapNow()-before)/float64(2*len(n.pods)), "B/probe-new")
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	time.Sleep(period + time.Second)
	n.mu.Lock()
	n.count = 0
	n.mu.Unlock()
	cpu := cpuNow()
	time.Sleep(window)
	cpu = cpuNow() - cpu
	cancel()
	require.NoError(b, <-done)
	b.ReportMetric(float64(heapNow()-before)/float64(2*len(n.pods)), "B/probe")
	b.ReportMetric(float64(cpu.Milliseconds())/window.Seconds(), "cpu-ms/s")
	b.ReportMetric(float64(n.count)/window.Seconds(), "probes/s")
	b.ReportMetric(float64(n.most), "goroutines")
	b.ReportMetric(0, "ns/op")
}

func heapNow() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func cpuNow() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// 10,000 probes at 10 s: under 25 ms of CPU per second, 64 goroutines, 1 KiB each. The benchmark
// takes 21 s, independent of -benchtime.
func Benchmark10000Probes(b *testing.B) {
	if testing.Short() {
		b.Skip("lasts 21 s")
	}
	newNode(b, 10_000, 10).measure(b, 10*time.Second, 10*time.Second)
}
