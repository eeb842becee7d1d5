package pods

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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

// A container that sees the pod's folder may put anything in the file's place. Nothing
// waits for a pipe, and what a link leads to stays as it is.
func TestHostsFileIsPlain(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	path, err := h.m.writeHosts(pod, nil)
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("other"), 0o600))
	for name, plant := range map[string]func() error{
		"pipe":   func() error { return unix.Mkfifo(path, 0o600) },
		"link":   func() error { return os.Symlink(other, path) },
		"folder": func() error { return os.Mkdir(path, 0o700) },
	} {
		require.NoError(t, os.Remove(path), name)
		require.NoError(t, plant(), name)
		written := make(chan error, 1)
		go func() {
			_, err := h.m.writeHosts(pod, nil)
			written <- err
		}()
		select {
		case err := <-written:
			require.ErrorContains(t, err, path, name)
		case <-time.After(10 * time.Second):
			t.Fatal(name + ": it waits")
		}
	}
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "other", string(text))
}
