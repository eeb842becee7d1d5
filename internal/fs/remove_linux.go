package fs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/run"
)

// passes is the number of attempts to remove a folder into which files are written meanwhile.
const passes = 4

// Remove deletes a path and its content. It does not delete the content of mounts: it then
// deletes the rest and returns an error that wraps ErrMounted. If dir itself is a mount point,
// it deletes no file. A missing path is no error.
func Remove(ctx context.Context, dir string) error {
	root, err := isRoot(dir)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		return &fs.PathError{Op: "remove", Path: dir, Err: err}
	case root:
		return fmt.Errorf("remove %s: %w", dir, ErrMounted)
	}
	for range passes {
		err = unix.Unlink(dir) // succeeds for any type but a folder
		if err != nil && !errors.Is(err, unix.ENOENT) {
			err = pass(ctx, dir)
		}
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
	}
	return err
}

// pass deletes the content of a folder, and the folder.
func pass(ctx context.Context, dir string) error {
	var errs []error
	try := func(e Entry, how int) {
		err := unix.Unlinkat(e.Dir, e.Name, how)
		if err != nil && !errors.Is(err, unix.ENOENT) && len(errs) < maxListed {
			errs = append(errs, &fs.PathError{Op: "remove", Path: e.Name, Err: err})
		}
	}
	err := Walk(ctx, dir, Visitor{
		Visit: func(e Entry) error {
			if !e.Type.IsDir() {
				try(e, 0)
			}
			return nil
		},
		Leave: func(e Entry) error {
			try(e, unix.AT_REMOVEDIR)
			return nil
		},
	})
	if err != nil || len(errs) > 0 {
		return fmt.Errorf("remove %s: %w", dir, run.Join(append(errs, err)...))
	}
	if err := unix.Rmdir(dir); err != nil {
		return &fs.PathError{Op: "remove", Path: dir, Err: err}
	}
	return nil
}

// isRoot reports whether the path is a mount point.
func isRoot(path string) (bool, error) {
	var is, parent unix.Statx_t
	how := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(unix.AT_FDCWD, path, how, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &is); err != nil {
		return false, err
	}
	if is.Mode&unix.S_IFMT != unix.S_IFDIR || is.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return is.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	err := unix.Statx(unix.AT_FDCWD, path+"/..", how, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &parent)
	return MountOf(is) != MountOf(parent), err
}
