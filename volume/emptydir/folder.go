package emptydir

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume/mounts"
)

// ErrPageSize is wrapped by the error of a Mount that finds huge pages of another size.
var ErrPageSize = errors.New("mounted with another page size")

// folder is the folder of a volume. A marker in another folder shows that it is complete.
type folder struct {
	dir, marker string
	pageSize    int64 // of huge pages; zero without them
	memory      bool
	size        int64 // limit in memory; zero means half of the node's
	label       string
}

const (
	dirMode    = 0o777
	markerMode = 0o750
)

// mode returns the mode of a new volume. In memory it is sticky: a tmpfs has the mode 1777 in
// every kubelet, and new folders for sub paths copy it.
func (f *folder) mode() iofs.FileMode {
	if f.memory {
		return dirMode | iofs.ModeSticky
	}
	return dirMode
}

// prepare creates the folder with the volume's mode, unless it is complete.
func (f *folder) prepare(ctx context.Context, m mounts.Mounter) error {
	is, mounted, err := m.At(ctx, f.dir)
	missing := errors.Is(err, iofs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	switch ready := !missing && marked(f.marker); {
	case mounted && f.pageSize > 0 && is.PageSize != f.pageSize:
		return fmt.Errorf("%s: %w: %d bytes instead of %d", f.dir, ErrPageSize, is.PageSize, f.pageSize)
	case mounted && f.fsType() != "" && is.FSType != f.fsType():
		return fmt.Errorf("%s: %w: file system type %q instead of %q", f.dir, fs.ErrMounted, is.FSType, f.fsType())
	case ready && (mounted || f.fsType() == ""):
		return nil
	case missing:
		// The folder was deleted although the volume was complete.
		if err := os.RemoveAll(f.marker); err != nil {
			return err
		}
		if err := os.Mkdir(f.dir, dirMode); err != nil && !errors.Is(err, iofs.ErrExist) {
			return err
		}
	}
	if f.fsType() != "" && !mounted {
		if err := f.mount(ctx, m); err != nil {
			return err
		}
	}
	if err := os.Chmod(f.dir, f.mode()); err != nil { // mkdir applies the umask
		return err
	}
	return mark(f.marker)
}

// fsType returns the file system to mount, or "" for a folder on the disk.
func (f *folder) fsType() string {
	switch {
	case f.pageSize > 0:
		return "hugetlbfs"
	case f.memory:
		return "tmpfs"
	}
	return ""
}

func (f *folder) mount(ctx context.Context, m mounts.Mounter) error {
	options := []string{"mode=0777"}
	if f.memory {
		options = []string{"mode=1777"}
	}
	if f.label != "" {
		options = append(options, "context="+strconv.Quote(f.label))
	}
	if f.pageSize > 0 {
		options = append(options, "pagesize="+strconv.FormatInt(f.pageSize, 10))
		return m.Mount(ctx, mounts.Mount{Source: "nodev", Target: f.dir, FSType: "hugetlbfs", Options: options})
	}
	if f.size > 0 {
		options = append(options, "size="+strconv.FormatInt(f.size, 10))
	}
	tmpfs := mounts.Mount{Source: "tmpfs", Target: f.dir, FSType: "tmpfs", Options: append(options, "noswap")}
	err := m.Mount(ctx, tmpfs)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// Linux before 6.4 and user namespaces reject noswap.
	tmpfs.Options = options
	return m.Mount(ctx, tmpfs)
}

func marked(marker string) bool {
	_, err := os.Lstat(filepath.Join(marker, "ready"))
	return err == nil
}

func mark(marker string) error {
	if err := os.MkdirAll(marker, markerMode); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(marker, "ready"), nil, 0o640)
}

// remove removes the marker, then the mounts, then the folder with its content. It fails if
// there are foreign mounts at or below the folder. It is idempotent.
func remove(ctx context.Context, m mounts.Mounter, dir, marker string) error {
	if err := os.RemoveAll(marker); err != nil {
		return err
	}
	for {
		is, mounted, err := m.At(ctx, dir)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !mounted:
			return fs.Remove(ctx, dir)
		case is.FSType != "tmpfs" && is.FSType != "hugetlbfs":
			return fmt.Errorf("%s: %w: file system type %q, neither tmpfs nor hugetlbfs", dir, fs.ErrMounted, is.FSType)
		}
		if err := m.Unmount(ctx, dir); err != nil {
			return err
		}
	}
}
