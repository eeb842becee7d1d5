package podworkers

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// idle starts workers with n pods that have been synced once.
func idle(b *testing.B, n int) (*Workers, []*v1.Pod) {
	b.Helper()
	synced := make(chan struct{}, n)
	w, err := New(Config{Syncer: SyncerFuncs{Sync: func(context.Context, Work) (bool, error) {
		select {
		case synced <- struct{}{}:
		default:
		}
		return false, nil
	}}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			b.Error(err)
		}
	})
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = podOf(fmt.Sprint(i))
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	for _, pod := range pods {
		if err := w.UpdatePod(create(pod)); err != nil {
			b.Fatal(err)
		}
	}
	for range n {
		<-synced
	}
	for busy := 1; busy > 0; runtime.Gosched() {
		w.mu.Lock()
		busy = len(w.running)
		w.mu.Unlock()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/idle-pod")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines-more")
	return w, pods
}

func BenchmarkUpdatePod10k(b *testing.B) {
	w, pods := idle(b, 10_000)
	i := 0
	for b.Loop() {
		if err := w.UpdatePod(Update{Type: UpdateSync, Pod: pods[i%len(pods)]}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkState10k(b *testing.B) {
	w, pods := idle(b, 10_000)
	for b.Loop() {
		if w.State(pods[7].UID).TerminationRequested() {
			b.Fatal("unexpected")
		}
	}
}

func BenchmarkSyncKnownPods10k(b *testing.B) {
	w, pods := idle(b, 10_000)
	for b.Loop() {
		w.SyncKnownPods(pods)
	}
}

func BenchmarkMachineCycle(b *testing.B) {
	m := newMachine(rigPolicy, false)
	now := time.Unix(1, 0)
	m.open(now)
	pod := podOf("a")
	for b.Loop() {
		m.update(Update{Type: UpdateSync, Pod: pod}, false, now)
		out := m.take()
		m.complete(types.UID("a"), out.start[0].gen, result{}, now)
		m.take()
	}
}
