package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountsBelow lists the mount points at or below dir, the newest first: the
// order in which they can be unmounted.
func mountsBelow(mountinfo, dir string) []string {
	var out []string
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		point := unescapeMount(f[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			out = append(out, point)
		}
	}
	slices.Reverse(out)
	return out
}

// rootMount is the last line of a mountinfo whose mount point is /.
func rootMount(mountinfo string) string {
	root := ""
	for line := range strings.Lines(mountinfo) {
		if f := strings.Fields(line); len(f) >= 5 && f[4] == "/" {
			root = strings.TrimSuffix(line, "\n")
		}
	}
	return root
}

// unescapeMount undoes the kernel's octal escapes for space, tab, newline and
// backslash.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func currentMounts(dir string) ([]string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return mountsBelow(string(info), dir), nil
}

// unmountBelow detaches everything below dir, and again what that uncovers.
func unmountBelow(dir string) error {
	for range 5 {
		points, err := currentMounts(dir)
		if err != nil || len(points) == 0 {
			return err
		}
		for _, p := range points {
			// What cannot be unmounted is seen by the next look at the table.
			_ = unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	}
	points, err := currentMounts(dir)
	if err == nil && len(points) > 0 {
		err = fmt.Errorf("still mounted: %s", strings.Join(points, " "))
	}
	return err
}

// removeTree deletes dir, but never through a mount: behind it could be a
// folder of the host.
func removeTree(dir string) error {
	points, err := currentMounts(dir)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return errors.New(dir + " is not deleted: something is mounted below it")
	}
	return os.RemoveAll(dir)
}
