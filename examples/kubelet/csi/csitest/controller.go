package csitest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// path returns the content of a volume of Create: a tmpfs, or the file of a device.
func (d *Driver) path(id string) string { return filepath.Join(d.Data, id) }

// Create creates a volume of size bytes, as a device if device is true. An existing volume is not
// changed. It corresponds to the controller's CreateVolume.
func (d *Driver) Create(id string, size int64, device bool) error {
	_, err := os.Lstat(d.path(id))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if device {
		if err := os.WriteFile(d.path(id), nil, 0o600); err != nil {
			return err
		}
		return os.Truncate(d.path(id), size)
	}
	if err := os.Mkdir(d.path(id), 0o755); err != nil {
		return err
	}
	return unix.Mount("tmpfs", d.path(id), "tmpfs", 0, fmt.Sprintf("size=%d", size))
}

// Delete removes a volume. It corresponds to the controller's DeleteVolume.
func (d *Driver) Delete(id string) error {
	if err := unmount(d.path(id)); err != nil {
		return err
	}
	if err := os.Remove(d.path(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ControllerPublish records in Log that a volume was attached to the node.
func (d *Driver) ControllerPublish(id string) { d.note("ControllerPublishVolume " + id) }

// ControllerUnpublish records in Log that a volume was detached from the node.
func (d *Driver) ControllerUnpublish(id string) { d.note("ControllerUnpublishVolume " + id) }

// ControllerExpand records in Log that a volume was expanded. The volume grows in NodeExpandVolume.
func (d *Driver) ControllerExpand(id string) { d.note("ControllerExpandVolume " + id) }

// grow enlarges a volume to size bytes.
func grow(path string, size int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return unix.Mount("", path, "", unix.MS_REMOUNT, fmt.Sprintf("size=%d", size))
	}
	if err := os.Truncate(path, size); err != nil {
		return err
	}
	device, err := attach(path)
	if err == nil {
		_, err = losetup("--set-capacity", device)
	}
	return err
}

// attach returns the loop device of a file. It creates a missing one.
func attach(file string) (device string, err error) {
	if device, err = attached(file); device != "" || err != nil {
		return device, err
	}
	return losetup("--find", "--show", file)
}

func attached(file string) (string, error) {
	if info, err := os.Stat(file); err != nil || info.IsDir() {
		return "", err
	}
	out, err := losetup("--noheadings", "--output", "NAME", "--associated", file)
	device, _, _ := strings.Cut(out, "\n")
	return strings.TrimSpace(device), err
}

func detach(file string) error {
	device, err := attached(file)
	if err == nil && device != "" {
		_, err = losetup("--detach", device)
	}
	return err
}

func losetup(args ...string) (string, error) {
	out, err := exec.Command("losetup", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("losetup %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// publishDevice bind-mounts the loop device of a file on a new file at target, as real drivers do.
func publishDevice(file, target string) error {
	device, err := attached(file)
	if err != nil {
		return err
	}
	if device == "" {
		return fmt.Errorf("%s is not staged", file)
	}
	f, err := os.OpenFile(target, os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return mount(device, target, "", unix.MS_BIND)
}
