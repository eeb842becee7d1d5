//go:build unix

package podworkers

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// cpuTime is what the process has used so far, on all processors.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// One whole life of a pod (create, sync, kill, both teardown calls, forget), of 1000
// pods at a time; cpu-ns/life is what the whole process uses for it.
func BenchmarkLife(b *testing.B) {
	const n = 1000
	reached := make(chan State, 1)
	counts := map[State]int{}
	w, err := New(Config{Syncer: SyncerFuncs{}, OnTransition: func(m Transition) {
		if counts[m.To]++; counts[m.To] == n {
			counts[m.To] = 0
			if m.To == StateSyncing || m.To == StateFinished || m.To == StateUnknown {
				reached <- m.To
			}
		}
	}})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	goroutines := runtime.NumGoroutine()
	go func() { ran <- w.Run(ctx) }()
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = podOf(fmt.Sprint(i))
	}
	awaitRun(b, w)
	send := func(u func(*v1.Pod) Update, until State) {
		for _, pod := range pods {
			if err := w.UpdatePod(u(pod)); err != nil {
				b.Fatal(err)
			}
		}
		require.Equal(b, until, <-reached)
	}
	lives := 0
	before := cpuTime(b)
	for b.Loop() {
		send(create, StateSyncing)
		send(func(p *v1.Pod) Update { return kill(p) }, StateFinished)
		w.SyncKnownPods(nil)
		require.Equal(b, StateUnknown, <-reached)
		lives += n
	}
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(lives), "cpu-ns/life")
	require.Empty(b, w.Left())
	stop()
	require.NoError(b, <-ran)
	require.LessOrEqual(b, runtime.NumGoroutine(), goroutines)
}

// awaitRun waits until Run works.
func awaitRun(b *testing.B, w *Workers) {
	for {
		w.mu.Lock()
		open := w.m.isOpen
		w.mu.Unlock()
		if open {
			return
		}
		runtime.Gosched()
		require.NoError(b, b.Context().Err())
	}
}
