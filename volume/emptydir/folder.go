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

// ErrPageSize is wrapped by the error of a Prepare that has found huge pages of another
// size than asked for.
var ErrPageSize = errors.New("mounted with another page size")

// Folder is a folder of a pod.
type Folder struct {
	// Dir is where it is. The folder that it is in is there.
	Dir string
	// Marker is a folder for the mark that Dir is ready. It is made with its parents.
	Marker string
	// PageSize is that of huge pages in bytes; zero means that there are none.
	PageSize int64
	// Memory puts the folder into memory.
	Memory bool
	// Size is how many bytes of memory it may use at most; zero means half of the
	// node's. On the disk it counts for nothing.
	Size int64
	// SELinuxLabel is what a folder in memory is mounted with; empty means nothing.
	SELinuxLabel string
}

// WrappedMarker is Folder.Marker for a plugin that puts content into the folder, as
// other kubelets have it, made from volume.Mount.StateDir or volume.Unmount.StateDir:
// "plugins/kubernetes.io~empty-dir/wrapped_NAME".
func WrappedMarker(stateDir string) string {
	plugins, volume := filepath.Dir(filepath.Dir(stateDir)), filepath.Base(stateDir)
	return filepath.Join(plugins, "kubernetes.io~empty-dir", "wrapped_"+volume)
}

const (
	dirMode    = 0o777
	markerMode = 0o750
)

// Prepare makes the folder, with mode 0777, unless it is there and ready. It tells
// whether it has made it: then it is empty, or has what a crash has left.
func Prepare(ctx context.Context, m mounts.Mounter, f Folder) (made bool, err error) {
	is, mounted, err := m.At(ctx, f.Dir)
	missing := errors.Is(err, iofs.ErrNotExist)
	if err != nil && !missing {
		return false, err
	}
	switch ready := !missing && marked(f.Marker); {
	case mounted && f.PageSize > 0 && is.PageSize != f.PageSize:
		return false, fmt.Errorf("%s: %w: %d bytes instead of %d", f.Dir, ErrPageSize, is.PageSize, f.PageSize)
	case mounted && f.fsType() != "" && is.FSType != f.fsType():
		return false, fmt.Errorf("%s: %w that is not %s", f.Dir, fs.ErrMounted, f.fsType())
	case ready && (mounted || f.fsType() == ""):
		return false, nil
	case missing:
		// It may have been deleted: what is ready is made anew.
		if err := os.RemoveAll(f.Marker); err != nil {
			return false, err
		}
		if err := os.Mkdir(f.Dir, dirMode); err != nil && !errors.Is(err, iofs.ErrExist) {
			return false, err
		}
	}
	if f.fsType() != "" && !mounted {
		if err := f.mount(ctx, m); err != nil {
			return true, err
		}
	}
	if err := os.Chmod(f.Dir, dirMode); err != nil { // against the umask
		return true, err
	}
	return true, mark(f.Marker)
}

// fsType is what is mounted, nothing for a folder on the disk.
func (f *Folder) fsType() string {
	switch {
	case f.PageSize > 0:
		return "hugetlbfs"
	case f.Memory:
		return "tmpfs"
	}
	return ""
}

func (f *Folder) mount(ctx context.Context, m mounts.Mounter) error {
	options := []string{"mode=0777"}
	if f.SELinuxLabel != "" {
		options = append(options, "context="+strconv.Quote(f.SELinuxLabel))
	}
	if f.PageSize > 0 {
		options = append(options, "pagesize="+strconv.FormatInt(f.PageSize, 10))
		return m.Mount(ctx, mounts.Mount{Source: "nodev", Target: f.Dir, FSType: "hugetlbfs", Options: options})
	}
	if f.Size > 0 {
		options = append(options, "size="+strconv.FormatInt(f.Size, 10))
	}
	tmpfs := mounts.Mount{Source: "tmpfs", Target: f.Dir, FSType: "tmpfs", Options: append(options, "noswap")}
	err := m.Mount(ctx, tmpfs)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// Before Linux 6.4, and in a user namespace, memory may be swapped.
	tmpfs.Options = options
	return m.Mount(ctx, tmpfs)
}

// marked tells whether a folder is ready.
func marked(marker string) bool {
	_, err := os.Lstat(filepath.Join(marker, "ready"))
	return err == nil
}

func mark(marker string) error {
	if err := os.MkdirAll(marker, markerMode); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(marker, "ready"), os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}

// Remove takes away what Prepare may have made: the mark first, then what is mounted,
// then the folder with all that is in it, but nothing of what others have mounted in it.
// It can be called again after an error, and when there is nothing.
func Remove(ctx context.Context, m mounts.Mounter, dir, marker string) error {
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
			return fmt.Errorf("%s: %w that is neither tmpfs nor hugetlbfs", dir, fs.ErrMounted)
		}
		if err := m.Unmount(ctx, dir); err != nil {
			return err
		}
	}
}
