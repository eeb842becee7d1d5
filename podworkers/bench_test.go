//go:build unix

package podworkers

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// idlePods starts workers with n pods that were synced once, and returns the memory per pod,
// without the pod object.
func idlePods(t testing.TB, n int, syncer PodSyncer) (w *Workers, pods []*v1.Pod, bytes float64) {
	t.Helper()
	w, err := New(Config{Syncer: syncer})
	require.NoError(t, err)
	runUntilEnd(t, w)
	pods = make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = podOf(fmt.Sprint(i))
	}
	require.NoError(t, w.UpdatePod(create(podOf("first")))) // Run has begun once it is synced
	w.awaitIdle("first")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	for _, pod := range pods {
		require.NoError(t, w.UpdatePod(create(pod)))
	}
	for _, pod := range pods {
		w.awaitIdle(pod.UID)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(pods)
	few := func() bool { return runtime.NumGoroutine() < goroutines+50 } // some may be about to end
	require.Eventually(t, few, time.Minute, time.Millisecond, "an idle pod has no goroutine")
	bytes = (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / float64(n)
	return w, pods, bytes
}

func (w *Workers) awaitIdle(uid types.UID) {
	for w.State(uid).NextRetry.IsZero() {
		runtime.Gosched()
	}
}

// An idle pod has no goroutine and costs at most 2 KiB.
func TestIdlePodIsCheap(t *testing.T) {
	_, _, bytes := idlePods(t, 10_000, SyncerFuncs{})
	t.Logf("%.0f bytes per idle pod", bytes)
	require.Less(t, bytes, 2048.0)
}

// Benchmark10k measures updates with 10,000 pods, of which 100 always have a running call.
func Benchmark10k(b *testing.B) {
	release := make(chan struct{})
	busy := func(ctx context.Context, w Work) (bool, error) {
		if w.Type == UpdateUpdate {
			select {
			case <-ctx.Done():
			case <-release:
			}
		}
		return false, nil
	}
	w, pods, bytes := idlePods(b, 10_000, SyncerFuncs{Sync: busy})
	defer close(release)
	for _, pod := range pods[:100] {
		require.NoError(b, w.UpdatePod(update(pod)))
	}
	for name, do := range map[string]func(*v1.Pod) error{
		"UpdatePod":     func(pod *v1.Pod) error { return w.UpdatePod(resync(pod)) },
		"State":         func(pod *v1.Pod) error { _ = w.State(pod.UID); return nil },
		"SyncKnownPods": func(*v1.Pod) error { w.SyncKnownPods(pods); return nil },
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				if err := do(pods[len(took)%len(pods)]); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
			b.ReportMetric(bytes, "B/idle-pod")
		})
	}
}

// BenchmarkLife measures a pod's whole life (create, sync, kill, both teardown calls, forget),
// 1000 pods at a time. cpu-ns/life is the CPU time of the whole process per life.
func BenchmarkLife(b *testing.B) {
	const n = 1000
	reached, counts := make(chan State, 10), map[State]int{}
	w, err := New(Config{Syncer: SyncerFuncs{}, OnTransition: func(m Transition) {
		if counts[m.To]++; counts[m.To]%n == 0 {
			reached <- m.To
		}
	}})
	require.NoError(b, err)
	runUntilEnd(b, w)
	until := func(s State) {
		for <-reached != s {
		}
	}
	before := cpuTime(b)
	for b.Loop() {
		for i := range n {
			require.NoError(b, w.UpdatePod(create(podOf(fmt.Sprint(i)))))
		}
		until(StateSyncing)
		for i := range n {
			require.NoError(b, w.UpdatePod(kill(podOf(fmt.Sprint(i)))))
		}
		until(StateFinished)
		w.SyncKnownPods(nil)
		until(StateUnknown)
	}
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N)/n, "cpu-ns/life")
	require.Empty(b, w.Remaining())
}

// cpuTime returns the CPU time of the process on all processors.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func runUntilEnd(t testing.TB, w *Workers) {
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ran)
	})
}
