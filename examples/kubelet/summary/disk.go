package summary

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/cri/stats"
)

func disk(dir string) (*stats.Filesystem, error) {
	var is unix.Statfs_t
	if err := unix.Statfs(dir, &is); err != nil {
		return nil, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	f := &stats.Filesystem{
		Time: time.Now(), Mountpoint: dir,
		Capacity: new(is.Blocks * uint64(is.Bsize)), Available: new(is.Bavail * uint64(is.Bsize)), Used: new((is.Blocks - is.Bfree) * uint64(is.Bsize)),
	}
	if is.Files > 0 { // otherwise the filesystem has no inode limit
		f.Inodes, f.InodesFree, f.InodesUsed = new(is.Files), new(is.Ffree), new(is.Files-is.Ffree)
	}
	return f, nil
}

// with returns used, with the capacity of on if that is not nil.
func with(on, used *stats.Filesystem) *stats.Filesystem {
	out := *used
	if on != nil {
		out.Capacity, out.Available, out.Inodes, out.InodesFree = on.Capacity, on.Available, on.Inodes, on.InodesFree
	}
	return &out
}

// deviceNames caches names of block devices by major and minor number.
type deviceNames map[[2]int]string

func (n deviceNames) of(major, minor int) string {
	name, known := n[[2]int{major, minor}]
	if !known {
		name = deviceName(major, minor)
		n[[2]int{major, minor}] = name
	}
	return name
}

// blockDevice returns the name of a folder's block device, such as /dev/vda. It returns dir if the
// folder is missing.
func (n deviceNames) blockDevice(dir string) string {
	var is unix.Stat_t
	if err := unix.Stat(dir, &is); err != nil {
		return dir
	}
	return n.of(int(unix.Major(is.Dev)), int(unix.Minor(is.Dev)))
}

// deviceName returns the name of a block device, or its numbers if that is unknown.
func deviceName(major, minor int) string {
	numbers := strconv.Itoa(major) + ":" + strconv.Itoa(minor)
	text, err := os.ReadFile("/sys/dev/block/" + numbers + "/uevent")
	if err != nil {
		return numbers
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			return "/dev/" + name
		}
	}
	return numbers
}
