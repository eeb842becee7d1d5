//go:build !linux && !darwin && !freebsd

package gc

import "fmt"

// measure fails on this system.
func measure(path string) (Disk, error) {
	return Disk{}, fmt.Errorf("the size of the file system of %s is unavailable on this platform: set Config.Disk", path)
}
