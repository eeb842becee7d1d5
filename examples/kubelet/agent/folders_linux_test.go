package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/podworkers"
)

// A disk that is full keeps a pod from starting, with an error that says so, and
// from nothing once there is room again. Pods that run are not affected, and pods
// can be removed.
func TestDiskIsFull(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		for _, dir := range []string{"root", "logs"} {
			require.NoError(w.t, os.Mkdir(filepath.Join(w.dir, dir), 0o700))
		}
		if err := unix.Mount("tmpfs", filepath.Join(w.dir, "root"), "tmpfs", 0, "size=1m,nr_inodes=40"); err != nil {
			w.t.Skip("cannot mount:", err)
		}
		w.t.Cleanup(func() { _ = unix.Unmount(filepath.Join(w.dir, "root"), unix.MNT_DETACH) })
		first, second := podOf("1", v1.RestartPolicyAlways, "a"), podOf("2", v1.RestartPolicyAlways, "b")
		w.set(first)
		w.startFor(5 * time.Second)
		filler := filepath.Join(w.dir, "root", "filler")
		require.NoError(w.t, os.Mkdir(filler, 0o700))
		for i := 0; ; i++ { // until no inode is left
			if err := os.WriteFile(filepath.Join(filler, strconv.Itoa(i)), nil, 0o600); err != nil {
				require.ErrorIs(w.t, err, unix.ENOSPC)
				break
			}
		}
		failed := 0
		for free := range 12 { // every step may be the one that fails
			w.set(first, second)
			w.sleep(30 * time.Second)
			require.Equal(w.t, []uint32{0}, w.running()["a"])
			if err := w.agent.workers.State("2").LastError; err != nil {
				failed++
				require.ErrorContains(w.t, err, "no space left on device", "%d", free)
				require.Empty(w.t, w.running()["b"])
			} else {
				require.Len(w.t, w.running()["b"], 1)
			}
			w.set(first)
			w.sleep(30 * time.Second)
			require.Equal(w.t, podworkers.StateUnknown, w.agent.workers.State("2").State)
			require.Len(w.t, w.sandboxes(), 1)
			require.NoError(w.t, os.Remove(filepath.Join(filler, strconv.Itoa(free))))
		}
		require.Greater(w.t, failed, 3)
		w.set(first, second)
		w.sleep(30 * time.Second)
		require.Equal(w.t, map[string][]uint32{"a": {0}, "b": {0}}, w.running())
		w.set()
		w.sleep(2 * time.Minute)
		require.NoError(w.t, os.RemoveAll(filler))
		w.requireNothingLeft()
	})
}
