package tb

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// PodCgroups are the folders of the cgroups that pods have below a kubelet's cgroupRoot,
// in all hierarchies.
func PodCgroups(root string) []string {
	return slices.DeleteFunc(cgroups(root), func(dir string) bool {
		return !strings.HasPrefix(filepath.Base(dir), "pod") || filepath.Base(dir) == filepath.Base(root)
	})
}

// RemoveCgroups removes a kubelet's cgroupRoot, which nothing may run in any more.
func RemoveCgroups(t testing.TB, root string) {
	t.Helper()
	for _, dir := range slices.Backward(cgroups(root)) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("cgroups that are left: %v", err)
		}
	}
}

// cgroups are the folders of a cgroup and of those below it, parents first.
func cgroups(root string) (out []string) {
	const mountpoint = "/sys/fs/cgroup"
	hierarchies, _ := filepath.Glob(mountpoint + "/*" + root) // a good pattern
	for _, top := range append(hierarchies, mountpoint+root) {
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				out = append(out, path)
			}
			return nil // gone meanwhile
		})
	}
	return out
}
