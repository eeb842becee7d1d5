package mounts

import (
	"context"
	"errors"
	"io/fs"

	"github.com/podwright/podwright/internal/run"
)

// ErrLeftBehind is wrapped by the error of a call that was still in progress in the kernel when
// its context ended. The call may still take effect. The next call on the same path waits for
// it.
var ErrLeftBehind = run.ErrLeftBehind

// Mounter mounts and unmounts file systems. It is safe for concurrent use. All methods return
// soon after their context ends. Calls on one path wait for each other, except Detach.
type Mounter interface {
	// Mount adds a mount on top of the target, which must exist. After an error there is no new
	// mount, unless the error wraps ErrLeftBehind.
	Mount(ctx context.Context, m Mount) error
	// Unmount removes the newest mount at target. It fails while the mount is in use. A target
	// without mounts is no error.
	Unmount(ctx context.Context, target string) error
	// Detach removes the newest mount at target from view, even if it is in use or its server
	// is unreachable. Calls that wait for the server fail, and data not yet sent to the server
	// may be lost. Detach does not wait for an Unmount.
	Detach(ctx context.Context, target string) error
	// At returns the mount at a path. It does not follow a symbolic link at path. The error for
	// a missing path wraps fs.ErrNotExist.
	At(ctx context.Context, path string) (p Point, mounted bool, err error)
	// Below lists the mounts at and below a path without symbolic links, oldest first. It
	// accesses no file system, so an unreachable server cannot block it.
	Below(ctx context.Context, path string) ([]Point, error)
}

// UnmountAll removes all mounts at a path. A missing path has no mounts.
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

// Mount describes a mount.
type Mount struct {
	// Source is the device, the server, or for a bind mount the path. A symbolic link at Source
	// is followed, one at Target is not.
	Source, Target string
	// FSType is the type of the file system, such as "tmpfs". It is empty for a bind mount.
	FSType string
	// Options are options of mount(8): "bind", "ro", "size=1048576". A bind mount with "ro" is
	// read-only from the start. Options such as "rshared" alone add no mount; they change the
	// propagation of mounts below Target.
	Options []string
}

// Point is a mount point.
type Point struct {
	Path string
	// FSType is the type of the file system. At returns only "tmpfs", "hugetlbfs", "nfs", or ""
	// for any other type.
	FSType string
	// Source is the device or server. Options are the options of the mount and of its file
	// system, separated by commas. At leaves both empty.
	Source, Options string
	ReadOnly        bool
	// Shared is true if mounts below this one propagate from and to its copies in other mount
	// namespaces (mount_namespaces(7)). At leaves it false.
	Shared bool
	// Size is the size of the file system, PageSize the size of a page or block, both in bytes.
	// Only At sets them.
	Size, PageSize int64
}
