package blockdev

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/mount-utils"
	"k8s.io/utils/exec"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume/mounts"
)

// FormatAndMount mounts a device at a folder that it makes, unless something is mounted
// there already. A device without file system gets one first, of type fsType (empty
// means ext4); one with partitions or with another file system is left as it is, and
// fails to mount. A file system that may be written is checked and repaired before it is
// mounted. Programs that do that (blkid, fsck, mkfs) end with the context: a file system
// that was half made then is no file system, or one that fsck repairs.
func FormatAndMount(ctx context.Context, m mounts.Mounter, device, dir, fsType string, options []string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if _, mounted, err := m.At(ctx, dir); err != nil || mounted {
		return err
	}
	f := mount.SafeFormatAndMount{Interface: mounter{ctx: ctx, m: m}, Exec: programs{exec.New(), ctx}}
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

// mismatch is the error of a device that has another file system than asked for.
type mismatch struct{ error }

func (m mismatch) Unwrap() error { return m.error }

// EventReason is for the event that tells of it.
func (mismatch) EventReason() string { return "FailedMountOnFilesystemMismatch" }

// programs ends programs with a context.
type programs struct {
	exec.Interface
	ctx context.Context
}

// Command implements exec.Interface.
func (p programs) Command(name string, args ...string) exec.Cmd {
	return p.CommandContext(p.ctx, name, args...)
}

// mounter is the one method of a mount.Interface that counts when a device is mounted.
type mounter struct {
	mount.Interface
	ctx context.Context
	m   mounts.Mounter
}

// MountSensitive implements mount.Interface.
func (m mounter) MountSensitive(source, target, fsType string, options, sensitive []string) error {
	return m.m.Mount(m.ctx, mounts.Mount{Source: source, Target: target, FSType: fsType, Options: append(options, sensitive...)})
}

// Unmount unmounts everything at a folder, and removes the folder, which is empty then. It
// is idempotent.
func Unmount(ctx context.Context, m mounts.Mounter, dir string) error {
	if err := mounts.UnmountAll(ctx, m, dir); err != nil {
		return err
	}
	return fs.RemoveOne(dir)
}
