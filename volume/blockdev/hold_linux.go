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

// mark is in the name of loop devices that Hold has made: others are nobody's business.
const mark = "podwright: "

// Hold puts a read-only loop device on top of a block device: as long as that is there,
// also when the agent is not, the device cannot be detached. It returns the loop device.
// What is held already is left as it is.
func Hold(device string) (loop string, err error) {
	if loop, err = Holder(device); err != nil || loop != "" {
		return loop, err
	}
	backing, err := os.Open(device) // nothing is written through it
	if err != nil {
		return "", err
	}
	defer backing.Close()
	for range attempts {
		loop, err = attach(backing, device)
		if !errors.Is(err, unix.EBUSY) { // somebody else has taken it
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

// Holder finds the loop device with which a device is held; "" if it is not.
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
			continue // it was detached meanwhile
		}
		path := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), " (deleted)")
		name := filepath.Join("/dev", filepath.Base(filepath.Dir(filepath.Dir(file))))
		if path == real && marked(name) {
			return name, nil
		}
	}
	return "", nil
}

// marked tells whether a loop device was made by Hold.
func marked(loop string) bool {
	f, err := os.Open(loop)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	return err == nil && bytes.HasPrefix(info.File_name[:], []byte(mark))
}

// Release undoes Hold. That a device is not held is no error.
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

// Link makes a symbolic link to a device, in place of another one.
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

// freshName is that of a link before it takes the place of another. No volume is called
// so.
func freshName(link string) string {
	return filepath.Join(filepath.Dir(link), "."+filepath.Base(link)+".new")
}

// Unlink removes a link that Link has made, but nothing that is no link.
func Unlink(link string) error {
	for _, name := range []string{freshName(link), link} {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.Mode().Type() != fs.ModeSymlink:
			return fmt.Errorf("%s is no symbolic link", name)
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
