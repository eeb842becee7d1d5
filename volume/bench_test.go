package volume_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
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
