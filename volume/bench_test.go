package volume_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

// BenchmarkPrepare is a pod with five volumes that is prepared and released.
func BenchmarkPrepare(b *testing.B) {
	a := newAgent(b, nil)
	for i := 0; b.Loop(); i++ {
		pod := newPod(fmt.Sprint("u", i), "a", "b", "c", "d", "e")
		require.NoError(b, a.Prepare(b.Context(), pod))
		require.NoError(b, a.Release(b.Context(), pod.UID))
		require.NoError(b, os.Remove(a.cfg.Layout.Pod(pod.UID)))
	}
}

// BenchmarkSync is a sync of a pod that has all its volumes, among 1000 other pods.
func BenchmarkSync(b *testing.B) {
	a := newAgent(b, nil)
	for i := range 1000 {
		require.NoError(b, a.Prepare(b.Context(), newPod(fmt.Sprint("u", i), "a", "b", "c", "d", "e")))
	}
	pod := newPod("u1", "a", "b", "c", "d", "e")
	for b.Loop() {
		require.NoError(b, a.Prepare(b.Context(), pod))
	}
}

// BenchmarkChanged is a changed object of 500 pods, until it is on disk for all.
func BenchmarkChanged(b *testing.B) {
	var version, written atomic.Int64
	object := volume.Object{Kind: "ConfigMap", Namespace: "ns", Name: "web"}
	done := make(chan struct{}, 1)
	const pods = 500
	a := newAgent(b, func(a *agent) {
		a.plugin.DependsOn = func(*v1.Pod, *volume.Spec) []volume.Object { return []volume.Object{object} }
		a.plugin.Content = func(context.Context, volume.Mount) (string, error) { return fmt.Sprint(version.Load()), nil }
		a.cfg.Metrics.OnOperation = func(o volume.Operation) {
			if o.Name == "volume_mount" && written.Add(1)%pods == 0 {
				done <- struct{}{}
			}
		}
	})
	for i := range pods {
		require.NoError(b, a.Prepare(b.Context(), newPod(fmt.Sprint("u", i), "a")))
	}
	<-done
	for b.Loop() {
		version.Add(1)
		a.Changed(object)
		<-done
	}
	data, err := os.ReadFile(filepath.Join(a.dir(newPod("u7"), a.plugin, "a"), "content"))
	require.NoError(b, err)
	require.Equal(b, fmt.Sprint(version.Load()), string(data))
	require.Less(b, b.Elapsed()/time.Duration(b.N), time.Second)
}
