package pods

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/fake"
)

// A container may write to its hosts file what it likes. The next start has the
// content again, and costs the agent no memory.
func TestHostsFileThatAContainerHasBlownUp(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	file, err := h.m.writeHosts(pod, []string{"10.0.0.2"})
	require.NoError(t, err)
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, 256<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = h.m.writeHosts(pod, []string{"10.0.0.2"})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, len(want), info.Size())
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, have)
}
