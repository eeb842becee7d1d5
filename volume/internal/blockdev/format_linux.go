package blockdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"

	"k8s.io/mount-utils"
	"k8s.io/utils/exec"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume/mounts"
)

// FormatAndMount creates the folder dir and mounts the device there, unless dir is a mount
// point already. A device without a file system is formatted first with fsType (default: ext4).
// A device with partitions or another file system stays as it is, and the mount fails. A
// writable file system is checked and repaired before the mount. The programs for this (blkid,
// fsck, mkfs) end with the context. An interrupted mkfs leaves no file system, or one that fsck
// repairs.
func FormatAndMount(ctx context.Context, m mounts.Mounter, device, dir, fsType string, options []string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if _, mounted, err := m.At(ctx, dir); err != nil || mounted {
		return err
	}
	f := mount.SafeFormatAndMount{Interface: mounter{ctx: ctx, m: m}, Exec: programs{ctx: ctx}}
	err := f.FormatAndMount(device, dir, fsType, options)
	var failed mount.MountError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed) && failed.Type == mount.FilesystemMismatch:
		err = mismatch{err}
	}
	return fmt.Errorf("%s at %s: %w", device, dir, err)
}

// mismatch is the error for a device with a file system other than fsType.
type mismatch struct{ error }

func (m mismatch) Unwrap() error { return m.error }

// EventReason returns the reason of the Kubernetes event for this error.
func (mismatch) EventReason() string { return "FailedMountOnFilesystemMismatch" }

// programs starts programs that end with ctx, as do their children.
type programs struct {
	exec.Interface
	ctx context.Context
}

// Command implements exec.Interface.
func (p programs) Command(name string, args ...string) exec.Cmd {
	return program{ctx: p.ctx, name: name, args: args}
}

// program implements CombinedOutput, the only method of exec.Cmd that FormatAndMount needs.
type program struct {
	exec.Cmd
	ctx  context.Context
	name string
	args []string
}

// CombinedOutput implements exec.Cmd. fsck starts another program, which would use the device
// after the end of fsck.
func (p program) CombinedOutput() ([]byte, error) {
	out, err := run.Command(p.ctx, p.name, p.args...).CombinedOutput()
	if failed, ok := errors.AsType[*osexec.ExitError](err); ok {
		err = exec.ExitErrorWrapper{ExitError: failed}
	} else if errors.Is(err, exec.ErrExecutableNotFound) {
		err = exec.ErrExecutableNotFound // FormatAndMount compares
	}
	return out, err
}

// mounter implements MountSensitive, the only method of mount.Interface that FormatAndMount
// needs.
type mounter struct {
	mount.Interface
	ctx context.Context
	m   mounts.Mounter
}

// MountSensitive implements mount.Interface.
func (m mounter) MountSensitive(source, target, fsType string, options, sensitive []string) error {
	return m.m.Mount(m.ctx, mounts.Mount{Source: source, Target: target, FSType: fsType, Options: append(options, sensitive...)})
}

// Unmount removes all mounts at a folder, then the empty folder. It is idempotent.
func Unmount(ctx context.Context, m mounts.Mounter, dir string) error {
	if err := mounts.UnmountAll(ctx, m, dir); err != nil {
		return err
	}
	return fs.RemoveOne(dir)
}
