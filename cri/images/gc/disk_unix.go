//go:build linux || darwin || freebsd

package gc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// measure measures the filesystem of a path. Available is the space for unprivileged users.
func measure(path string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Disk{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	size := uint64(s.Bsize)
	return Disk{Capacity: uint64(s.Blocks) * size, Available: uint64(max(s.Bavail, 0)) * size}, nil
}
