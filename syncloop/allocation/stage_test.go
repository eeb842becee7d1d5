package allocation

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What was granted to many pods is one write, before the first of them begins.
func TestStage(t *testing.T) {
	a := newAgent(t, node(100_000))
	var pods []*v1.Pod
	for i := range 20 {
		pods = append(pods, newPod(fmt.Sprint("p", i), with("1", "")))
		require.NoError(t, a.admitOnly(pods[i]))
	}
	_, err := os.Stat(a.path)
	require.ErrorIs(t, err, os.ErrNotExist, "nobody waits for the disk yet")
	stage := a.cfg.Store.Stage()
	require.NoError(t, stage.Prepare(t.Context(), pods[3]))
	require.NoError(t, os.Link(a.path, a.path+".first")) // so that no other file is taken for it
	first, err := os.Stat(a.path)
	require.NoError(t, err)
	kept, err := Open(a.path)
	require.NoError(t, err)
	require.Equal(t, 20, kept.Pods())
	for _, pod := range pods {
		require.NoError(t, a.admitOnly(pod))
		require.NoError(t, stage.Prepare(t.Context(), pod))
	}
	again, err := os.Stat(a.path)
	require.NoError(t, err)
	require.True(t, os.SameFile(first, again))

	// One of the same UID was there before.
	require.NoError(t, stage.Release(t.Context(), "p3"))
	left, err := stage.Leftovers(t.Context())
	require.NoError(t, err)
	require.Len(t, left, 19)
	require.NotContains(t, left, types.UID("p3"))
	require.NoError(t, stage.Prepare(t.Context(), pods[3]))
	require.True(t, a.Granted("p3"))
	kept, err = Open(a.path)
	require.NoError(t, err)
	require.Equal(t, 20, kept.Pods())
}
