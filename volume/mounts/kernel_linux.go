package mounts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/run"
)

// Kernel is the Mounter of a Linux node. It needs CAP_SYS_ADMIN to mount. The zero value is
// ready for use. A Kernel must not be copied after first use. It is safe for concurrent use.
type Kernel struct{ calls run.Calls }

var _ Mounter = (*Kernel)(nil)

// Hanging lists the calls in progress with their start times, including calls whose context has
// ended.
func (k *Kernel) Hanging() []string { return k.calls.Running() }

// direct lists the file systems that need no helper of mount(8).
var direct = []string{"tmpfs", "hugetlbfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "overlay", "proc", "ramfs"}

// Mount implements Mounter.
func (k *Kernel) Mount(ctx context.Context, m Mount) error {
	return k.calls.Do(ctx, "mount", m.Target, func() error {
		if m.FSType != "" && !slices.Contains(direct, m.FSType) {
			return helper(ctx, m)
		}
		return mount(m)
	})
}

func mount(m Mount) error {
	set, spread, data := parse(m.Options)
	failed := func(err error) error {
		return fmt.Errorf("mount %s: %w", describe(m), err)
	}
	switch {
	case set&unix.MS_REMOUNT != 0 || m.FSType != "":
		if err := unix.Mount(m.Source, m.Target, m.FSType, set, data); err != nil {
			return failed(err)
		}
	case set&unix.MS_BIND != 0:
		if err := bind(m, set); err != nil {
			return failed(err)
		}
	case len(spread) == 0:
		return failed(errors.New("needs a file system type, or an option such as bind, remount or shared"))
	}
	for _, how := range spread {
		if err := unix.Mount("", m.Target, "", how, ""); err != nil {
			return failed(err)
		}
	}
	return nil
}

// bind creates a bind mount whose flags are set before the mount becomes visible.
func bind(m Mount, set uintptr) error {
	recursive := uint(0)
	if set&unix.MS_REC != 0 {
		recursive = unix.AT_RECURSIVE
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|recursive)
	if errors.Is(err, unix.ENOSYS) {
		return bindTwoCalls(m, set)
	}
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: attributes(set)}
	if attr.Attr_set != 0 {
		err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr)
		if errors.Is(err, unix.ENOSYS) {
			return bindTwoCalls(m, set)
		}
	}
	if err == nil {
		err = unix.MoveMount(tree, "", unix.AT_FDCWD, m.Target, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	return err
}

func attributes(set uintptr) (out uint64) {
	for flag, attr := range map[uintptr]uint64{
		unix.MS_RDONLY: unix.MOUNT_ATTR_RDONLY, unix.MS_NOSUID: unix.MOUNT_ATTR_NOSUID,
		unix.MS_NODEV: unix.MOUNT_ATTR_NODEV, unix.MS_NOEXEC: unix.MOUNT_ATTR_NOEXEC,
	} {
		if set&flag != 0 {
			out |= attr
		}
	}
	return out
}

// bindTwoCalls implements bind for kernels before Linux 5.12, which need a second call for the
// flags.
func bindTwoCalls(m Mount, set uintptr) error {
	err := unix.Mount(m.Source, m.Target, "", set&(unix.MS_BIND|unix.MS_REC), "")
	attrs := set &^ (unix.MS_BIND | unix.MS_REC)
	if err != nil || attrs == 0 {
		return err
	}
	var is unix.Statfs_t
	if err = unix.Statfs(m.Target, &is); err == nil {
		existing := uintptr(is.Flags) & (unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
		err = unix.Mount("", m.Target, "", unix.MS_BIND|unix.MS_REMOUNT|attrs|existing, "")
	}
	if err != nil {
		_ = unix.Unmount(m.Target, unix.UMOUNT_NOFOLLOW)
	}
	return err
}

func describe(m Mount) string {
	return strings.TrimSpace(fmt.Sprintf("%s at %s: %s %s", m.Source, m.Target, m.FSType, strings.Join(m.Options, ",")))
}

// Unmount implements Mounter.
func (k *Kernel) Unmount(ctx context.Context, target string) error {
	return k.calls.Do(ctx, "unmount", target, func() error { return unmount(target, 0) })
}

// Detach implements Mounter.
func (k *Kernel) Detach(ctx context.Context, target string) error {
	return k.calls.DoNow(ctx, "detach", target, func() error { return unmount(target, unix.MNT_FORCE|unix.MNT_DETACH) })
}

func unmount(target string, how int) error {
	err := unix.Unmount(target, how|unix.UMOUNT_NOFOLLOW)
	// The kernel returns EINVAL if target is no mount point.
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &fs.PathError{Op: "unmount", Path: target, Err: err}
}

// At implements Mounter.
func (k *Kernel) At(ctx context.Context, path string) (Point, bool, error) {
	var p Point
	var mounted bool
	err := k.calls.Do(ctx, "read mount point", path, func() (err error) {
		if mounted, err = isRoot(path); err == nil && mounted {
			p, err = pointAt(path)
		}
		return err
	})
	if err != nil {
		return Point{}, false, err // the unfinished call may still write to p
	}
	return p, mounted, nil
}

// isRoot reports whether a path is the root of a mount.
func isRoot(path string) (bool, error) {
	var is unix.Statx_t
	how := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(unix.AT_FDCWD, path, how, unix.STATX_TYPE, &is); err != nil {
		return false, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	if is.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return is.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	points, err := TableBelow(path) // before Linux 5.8
	return slices.ContainsFunc(points, func(p Point) bool { return p.Path == path }), err
}

// types lists the file systems that plugins must distinguish.
var types = map[uint32]string{
	unix.TMPFS_MAGIC:     "tmpfs",
	unix.HUGETLBFS_MAGIC: "hugetlbfs",
	unix.NFS_SUPER_MAGIC: "nfs",
}

func pointAt(path string) (Point, error) {
	var is unix.Statfs_t
	if err := unix.Statfs(path, &is); err != nil {
		return Point{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return Point{
		Path: path, FSType: types[uint32(is.Type)], ReadOnly: is.Flags&unix.ST_RDONLY != 0,
		Size: int64(is.Blocks) * int64(is.Bsize), PageSize: int64(is.Bsize),
	}, nil
}

// Below implements Mounter.
func (k *Kernel) Below(ctx context.Context, path string) ([]Point, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return TableBelow(path)
}
