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

// MakeCgroups makes a kubelet's cgroupRoot, for one that does not make it itself, and returns
// its folders in all hierarchies. It skips the test where there are none of cgroup v1.
func MakeCgroups(t testing.TB, root string) (made []string) {
	t.Helper()
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil || len(hierarchies) == 0 {
		t.Skip("needs cgroup v1")
	}
	for _, procs := range hierarchies {
		parent := filepath.Dir(procs)
		path := filepath.Join(parent, root)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		made = append(made, path)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new cgroup
			if text, err := os.ReadFile(filepath.Join(parent, file)); err == nil {
				if err := os.WriteFile(filepath.Join(path, file), text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return made
}

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
