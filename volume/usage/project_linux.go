package usage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoProjects is wrapped by the error of Projects.Track if the file system does not count
// projects: it lacks the feature, was mounted without prjquota, or the kernel is older than
// 5.14.
var ErrNoProjects = errors.New("the file system has no project quotas")

// The range of project ids for Track. It begins at the first id of other kubelets.
const (
	firstProject = 1048577
	lastProject  = 1<<31 - 1
)

// Projects makes the file system count the usage of folders while files are written (project
// quotas), so that a Meter need not walk them. It sets no limits. The zero value is ready for
// use. Projects is safe for concurrent use.
//
// A process that runs as root in a container without a user namespace can exclude files from
// the count. Use Projects only for pods with hostUsers: false (KEP-1029).
type Projects struct {
	mu   sync.Mutex
	next uint32
}

// Track starts counting the content of a folder, unless it is counted already. A folder with
// content stays uncounted, because existing files would be missing from the count. Track keeps
// no list: the project is an attribute of the folder.
func (p *Projects) Track(ctx context.Context, dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	attributes, err := getAttributes(d)
	if err != nil {
		return countError(dir, err)
	}
	own, err := ownProject(dir, attributes)
	if err != nil || own {
		return err
	}
	if names, err := d.Readdirnames(1); len(names) > 0 || !errors.Is(err, io.EOF) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id, err := p.freeID(ctx, d)
	if err != nil {
		return countError(dir, err)
	}
	attributes.project, attributes.flags = id, attributes.flags|inherited
	if err := setAttributes(d, attributes); err != nil {
		return countError(dir, err)
	}
	return nil
}

func countError(dir string, err error) error {
	return &fs.PathError{Op: "count", Path: dir, Err: fmt.Errorf("%w: %w", ErrNoProjects, err)}
}

// freeID returns a project id without files. The caller holds mu.
func (p *Projects) freeID(ctx context.Context, d *os.File) (uint32, error) {
	p.next = max(p.next, firstProject)
	for ; p.next < lastProject; p.next++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		used, err := readQuota(d, p.next)
		if err != nil {
			return 0, err
		}
		if used.curInodes == 0 {
			return p.next, nil
		}
	}
	return 0, errors.New("all project IDs are in use")
}

// projectUsage returns the file system's count for a folder that has its own project.
func projectUsage(dir string) (bytes, files int64, ok bool) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, 0, false
	}
	defer d.Close()
	attributes, err := getAttributes(d)
	if err != nil {
		return 0, 0, false
	}
	if own, err := ownProject(dir, attributes); err != nil || !own {
		return 0, 0, false
	}
	used, err := readQuota(d, attributes.project)
	if err != nil || used.curInodes == 0 {
		return 0, 0, false // quota accounting is off
	}
	return int64(used.curSpace), int64(used.curInodes), true
}

// ownProject reports whether a folder has a project that it did not inherit from its parent.
func ownProject(dir string, a fsxattr) (bool, error) {
	if a.project == 0 || a.flags&inherited == 0 {
		return false, nil
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return false, err
	}
	defer parent.Close()
	ofParent, err := getAttributes(parent)
	if err != nil {
		return true, nil // the parent is on a file system without projects
	}
	return ofParent.project != a.project, nil
}

// fsxattr is the kernel's struct of the same name.
type fsxattr struct {
	flags, extent, extents, project, cowExtent uint32
	_                                          [8]byte
}

const (
	// inherited is FS_XFLAG_PROJINHERIT: new files get the project of their folder.
	inherited = 0x200
	// getXattr and setXattr are the ioctls FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR.
	getXattr, setXattr = 0x801c581f, 0x401c5820
	// getQuota is QCMD(Q_GETQUOTA, PRJQUOTA).
	getQuota = 0x800007<<8 | 2
)

func getAttributes(f *os.File) (a fsxattr, err error) { return a, ioctl(f, getXattr, &a) }

func setAttributes(f *os.File, a fsxattr) error { return ioctl(f, setXattr, &a) }

func ioctl(f *os.File, request uintptr, a *fsxattr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(a))); errno != 0 {
		return errno
	}
	return nil
}

// dqblk is the kernel's struct if_dqblk, with usage and limits.
type dqblk struct {
	hardSpace, softSpace, curSpace    uint64
	hardInodes, softInodes, curInodes uint64
	spaceTime, inodesTime             uint64
	valid                             uint32
	_                                 uint32
}

// readQuota returns the usage of a project in the file system of an open file.
func readQuota(f *os.File, project uint32) (d dqblk, err error) {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, f.Fd(), getQuota, uintptr(project), uintptr(unsafe.Pointer(&d)), 0, 0)
	switch errno {
	case 0, unix.ENOENT: // ENOENT: the project has no usage yet
		return d, nil
	}
	return d, errno
}
