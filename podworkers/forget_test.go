package podworkers

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Forget drops only a finished pod that is to restart, and claims to know nothing
// about the others.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(Config{Syncer: SyncerFuncs{}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "1"}}
		require.NoError(t, w.UpdatePod(Update{Type: UpdateCreate, Pod: pod}))
		synctest.Wait()
		require.False(t, w.Forget("1"), "it runs")
		require.False(t, w.Forget("unknown"))
		require.NoError(t, w.UpdatePod(Update{Type: UpdateKill, Pod: pod}))
		synctest.Wait()
		require.Equal(t, StateFinished, w.State("1").State)
		require.False(t, w.Forget("1"), "nobody asked for a restart")
		require.NoError(t, w.UpdatePod(Update{Type: UpdateCreate, Pod: pod}))
		require.True(t, w.Forget("1"))
		require.Equal(t, StateUnknown, w.State("1").State)
		require.False(t, w.State("1").DesiredKnown)
		require.NoError(t, w.UpdatePod(Update{Type: UpdateCreate, Pod: pod}))
		synctest.Wait()
		require.Equal(t, StateSyncing, w.State("1").State)
		stop()
		require.NoError(t, <-done)
	})
}
