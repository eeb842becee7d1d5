package tb

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// UnmountRoot unmounts the root folder of a kubelet, which may have mounted it on itself. Neither
// the kubelet nor its pods may run.
func UnmountRoot(t testing.TB, root string) {
	t.Helper()
	err := unix.Unmount(root, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		t.Errorf("unmount %s: %v", root, err)
	}
}
