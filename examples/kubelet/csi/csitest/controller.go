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

// path is where a volume of Create keeps its content: a tmpfs, or the file of a device.
func (d *Driver) path(id string) string { return filepath.Join(d.Data, id) }

// Create makes a volume of a size in bytes, a device if it is to be one. One that is there
// stays as it is. It is CreateVolume of the controller's side.
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

// Delete removes a volume. It is DeleteVolume of the controller's side.
func (d *Driver) Delete(id string) error {
	if err := unmount(d.path(id)); err != nil {
		return err
	}
	if err := os.Remove(d.path(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ControllerPublish and ControllerUnpublish attach a volume to the node and take it away:
// they only note that in Log.
func (d *Driver) ControllerPublish(id string) { d.note("ControllerPublishVolume " + id) }

// ControllerUnpublish is described there.
func (d *Driver) ControllerUnpublish(id string) { d.note("ControllerUnpublishVolume " + id) }

// ControllerExpand notes in Log that a volume is to be larger. What it is made of grows on
// the node.
func (d *Driver) ControllerExpand(id string) { d.note("ControllerExpandVolume " + id) }

// grow makes a volume larger.
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

// attach makes a device of a file, if there is none yet.
func attach(file string) (device string, err error) {
	if device, err = attached(file); device != "" || err != nil {
		return device, err
	}
	return losetup("--find", "--show", file)
}

// attached is the device of a file, if it is a file and there is one.
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

// publishDevice mounts the device of a file on a file, as drivers do.
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
