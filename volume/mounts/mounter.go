package mounts

import (
	"context"
	"errors"
	"io/fs"

	"github.com/podwright/podwright/internal/run"
)

// ErrLeftBehind is wrapped by the error of a call that the kernel had not finished when
// its context ended. It may have its effect yet. The next call on the same path waits
// for it.
var ErrLeftBehind = run.ErrLeftBehind

// Mounter mounts. Methods are safe for concurrent use. All return soon after their
// context has ended; calls on one path wait for each other.
type Mounter interface {
	// Mount mounts something on top of what is at its target, which has to exist. An
	// error means that nothing was mounted, unless it wraps ErrLeftBehind.
	Mount(ctx context.Context, m Mount) error
	// Unmount unmounts what was mounted at target last; nothing is no error. It fails
	// while that is in use.
	Unmount(ctx context.Context, target string) error
	// Detach takes what was mounted at target last out of sight, also while it is in
	// use or its server does not answer: calls that wait for the server fail, and data
	// that has not reached it may be lost. It does not wait for an Unmount.
	Detach(ctx context.Context, target string) error
	// At tells what is mounted at a path, which it does not follow if it is a symbolic
	// link. A path that does not exist is an error that wraps fs.ErrNotExist.
	At(ctx context.Context, path string) (p Point, mounted bool, err error)
	// Below lists what is mounted at and below a path without symbolic links, the oldest
	// first. It asks no file system, so that none can make it hang.
	Below(ctx context.Context, path string) ([]Point, error)
}

// UnmountAll unmounts everything that is mounted at a path. A path that does not exist has
// no mounts.
func UnmountAll(ctx context.Context, m Mounter, path string) error {
	for {
		_, mounted, err := m.At(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !mounted {
			return err
		}
		if err := m.Unmount(ctx, path); err != nil {
			return err
		}
	}
}

// Mount says what to mount.
type Mount struct {
	// Source is the device, server, or for a bind mount the path. A path is followed if
	// it is a symbolic link, the Target is not.
	Source, Target string
	// FSType is the type of the file system, "tmpfs". A bind mount has none.
	FSType string
	// Options are those of mount(8): "bind", "ro", "size=1048576". A bind mount with
	// "ro" is read-only from the start. "rshared" and its like change how what is
	// mounted below Target propagates, and mount nothing.
	Options []string
}

// Point is a place where something is mounted.
type Point struct {
	// Path is where.
	Path string
	// FSType is the type of its file system. At knows "tmpfs", "hugetlbfs" and "nfs",
	// and says "" for others.
	FSType string
	// Source is the device or server, Options are those of the mount and of its file
	// system, with commas. At does not know them.
	Source, Options string
	// ReadOnly tells that nothing can be written.
	ReadOnly bool
	// Shared tells that what is mounted below it is seen, and may be mounted, by others that
	// have a copy of it (mount_namespaces(7)). Only tables know it.
	Shared bool
	// Size is how many bytes fit into the file system, PageSize how many it has in a
	// page or block. Only At knows them.
	Size, PageSize int64
}
