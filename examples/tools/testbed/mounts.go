package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/volume/mounts"
)

// currentMounts returns the mount points at or below dir in an order in which they can be
// unmounted, the newest first.
func currentMounts(dir string) ([]string, error) {
	points, err := mounts.TableBelow(dir)
	var out []string
	for _, p := range slices.Backward(points) {
		out = append(out, p.Path)
	}
	return out, err
}

// rootMount returns the source and options of a process's last mount on /.
func rootMount(mountinfo string) (string, error) {
	points, err := mounts.Table(mountinfo)
	for _, p := range slices.Backward(points) {
		if p.Path == "/" {
			return p.Source + " " + p.Options, err
		}
	}
	return "", err
}

// unmountBelow detaches all mounts below dir, including mounts that this uncovers.
func unmountBelow(dir string) error {
	for range 5 {
		points, err := currentMounts(dir)
		if err != nil || len(points) == 0 {
			return err
		}
		for _, p := range points {
			// The next read of the table shows mounts that could not be unmounted.
			_ = unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	}
	points, err := currentMounts(dir)
	if err == nil && len(points) > 0 {
		err = fmt.Errorf("still mounted: %s", strings.Join(points, " "))
	}
	return err
}

// removeTree deletes dir. It fails if a mount is below dir, because the mount could be a folder of
// the host.
func removeTree(dir string) error {
	points, err := currentMounts(dir)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return errors.New(dir + " is not deleted: it contains a mount")
	}
	return os.RemoveAll(dir)
}
