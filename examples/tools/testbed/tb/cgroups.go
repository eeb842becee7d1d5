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

// MakeCgroups creates a kubelet's cgroupRoot in all hierarchies and returns its folders, for a
// kubelet that does not create it. It skips the test without cgroup v1.
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

// PodCgroups returns the folders of the pods' cgroups below a kubelet's cgroupRoot, in all
// hierarchies.
func PodCgroups(root string) []string {
	return slices.DeleteFunc(cgroups(root), func(dir string) bool {
		return !strings.HasPrefix(filepath.Base(dir), "pod") || filepath.Base(dir) == filepath.Base(root)
	})
}

// RemoveCgroups removes a kubelet's cgroupRoot. No process may run in it.
func RemoveCgroups(t testing.TB, root string) {
	t.Helper()
	for _, dir := range slices.Backward(cgroups(root)) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("remaining cgroup: %v", err)
		}
	}
}

// cgroups returns the folders of a cgroup and of its descendants, parents first.
func cgroups(root string) (out []string) {
	const mountpoint = "/sys/fs/cgroup"
	hierarchies, _ := filepath.Glob(mountpoint + "/*" + root) // the pattern is valid
	for _, top := range append(hierarchies, mountpoint+root) {
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				out = append(out, path)
			}
			return nil // removed meanwhile
		})
	}
	return out
}
