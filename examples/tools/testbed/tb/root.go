package tb

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// UnmountRoot undoes what a kubelet may have made of its root folder, a mount of its own, when
// neither it nor its pods run any more.
func UnmountRoot(t testing.TB, root string) {
	t.Helper()
	err := unix.Unmount(root, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		t.Errorf("unmount %s: %v", root, err)
	}
}
