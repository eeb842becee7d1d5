package blockdev

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mark begins the file name in each loop device of Hold. Other loop devices are ignored.
const mark = "podwright: "

// Hold attaches a read-only loop device to a block device and returns the loop device. The
// block device cannot be detached while the loop device exists, even if the agent is not
// running. Hold returns an existing loop device of an earlier Hold.
func Hold(device string) (loop string, err error) {
	if loop, err = Holder(device); err != nil || loop != "" {
		return loop, err
	}
	backing, err := os.Open(device) // read-only: Hold never writes to the device
	if err != nil {
		return "", err
	}
	defer backing.Close()
	for range attempts {
		loop, err = attach(backing, device)
		if !errors.Is(err, unix.EBUSY) { // EBUSY: another process took the loop device
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("hold %s: %w", device, err)
	}
	return loop, nil
}

const attempts = 10

func attach(backing *os.File, device string) (string, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer control.Close()
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("/dev/loop%d", number)
	loop, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer loop.Close()
	config := unix.LoopConfig{Fd: uint32(backing.Fd())}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], mark+device)
	return name, unix.IoctlLoopConfigure(int(loop.Fd()), &config)
}

// Holder returns the loop device that holds a device, or "" if there is none.
func Holder(device string) (string, error) {
	real, err := filepath.EvalSymlinks(device)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = device, nil
	}
	if err != nil {
		return "", err
	}
	backings, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return "", err
	}
	for _, file := range backings {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // detached in the meantime
		}
		path := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), " (deleted)")
		name := filepath.Join("/dev", filepath.Base(filepath.Dir(filepath.Dir(file))))
		if path == real && marked(name) {
			return name, nil
		}
	}
	return "", nil
}

// marked reports whether Hold created the loop device.
func marked(loop string) bool {
	f, err := os.Open(loop)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	return err == nil && bytes.HasPrefix(info.File_name[:], []byte(mark))
}

// Release undoes Hold. A device that is not held is no error.
func Release(device string) error {
	loop, err := Holder(device)
	if err != nil || loop == "" {
		return err
	}
	f, err := os.Open(loop)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("release %s from %s: %w", device, loop, err)
	}
	return nil
}

// Link creates a symbolic link to a device. It replaces an existing link atomically.
func Link(device, link string) error {
	if old, err := os.Readlink(link); err == nil && old == device {
		return nil
	}
	fresh := freshName(link)
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(device, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, link)
}

// freshName returns the temporary name of a new link. No volume has such a name.
func freshName(link string) string {
	return filepath.Join(filepath.Dir(link), "."+filepath.Base(link)+".new")
}

// Unlink removes a link of Link. It fails if the file is not a symbolic link.
func Unlink(link string) error {
	for _, name := range []string{freshName(link), link} {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.Mode().Type() != fs.ModeSymlink:
			return fmt.Errorf("%s is not a symbolic link", name)
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
