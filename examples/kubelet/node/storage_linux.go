package node

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// StorageOf returns a function that returns the size in bytes of the file system of a folder.
func StorageOf(dir string) func() (int64, error) {
	return func() (int64, error) {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil {
			return 0, fmt.Errorf("size of the file system of %s: %w", dir, err)
		}
		return int64(s.Blocks) * s.Bsize, nil
	}
}
