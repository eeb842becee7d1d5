// Package cgroupfs removes cgroups for the tools.
package cgroupfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Remove removes cgroups, given as folders, and their descendants. It waits up to a second per cgroup
// for processes that are still ending.
func Remove(roots []string) {
	for _, root := range roots {
		var dirs []string
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // cgroups may vanish meanwhile
		})
		for _, dir := range slices.Backward(dirs) {
			for try := 0; os.Remove(dir) != nil && try < 20; try++ {
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
}
