package cri_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/cri"
)

// An agent that has the socket's folder on a read-only mount, as in a container, is refused while
// another agent of its owner has the lock.
func TestOwnerLockOnReadOnlyMount(t *testing.T) {
	socket, edge := filepath.Join(t.TempDir(), "r.sock"), cri.Owner{Name: "edge"}
	first, err := edge.Lock(socket, "")
	require.NoError(t, err)
	again, inside := make(chan bool), make(chan error)
	defer close(again)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and with it the mount
		if err := mountReadOnly(filepath.Dir(socket)); err != nil {
			inside <- err
			return
		}
		inside <- nil
		for range again {
			file, err := edge.Lock(socket, "")
			if err == nil {
				err = file.Close()
			}
			inside <- err
		}
	}()
	if err := <-inside; err != nil {
		require.NoError(t, first.Close())
		t.Skip("cannot mount: ", err)
	}
	again <- true
	require.ErrorIs(t, <-inside, cri.ErrOwnerInUse)
	require.NoError(t, first.Close())
	again <- true
	require.NoError(t, <-inside)
}

// mountReadOnly makes the folder read-only for the calling thread.
func mountReadOnly(folder string) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(folder, folder, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", folder, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}
