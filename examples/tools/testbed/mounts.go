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

// currentMounts lists the mount points at or below dir, the newest first: the order in
// which they can be unmounted.
func currentMounts(dir string) ([]string, error) {
	points, err := mounts.TableBelow(dir)
	var out []string
	for _, p := range slices.Backward(points) {
		out = append(out, p.Path)
	}
	return out, err
}

// rootMount is what a process has mounted at / last, in words.
func rootMount(mountinfo string) (string, error) {
	points, err := mounts.Table(mountinfo)
	for _, p := range slices.Backward(points) {
		if p.Path == "/" {
			return p.Source + " " + p.Options, err
		}
	}
	return "", err
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
