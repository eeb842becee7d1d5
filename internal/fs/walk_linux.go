package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/run"
)

// ErrMounted is wrapped by the error of a Walk that did not enter a mount.
var ErrMounted = errors.New("still mounted")

// ErrMoved is wrapped by the error of a Walk whose current folder was moved. The walk is
// incomplete.
var ErrMoved = errors.New("was moved")

// Entry is an entry of a folder.
type Entry struct {
	// Dir is the open folder, Name the entry's name in it.
	Dir  int
	Name string
	// Type is the file's type, without permissions.
	Type fs.FileMode

	walk *walk
}

// maxPath bounds the path in a message, because the path in a deep tree has no limit.
const maxPath = 4 << 10

// Path returns the entry's path below the folder of the walk, for messages. If it is longer than
// maxPath, Path returns the end of it. It must be called before the Visitor's method returns.
func (e Entry) Path() string {
	names, length := []string{e.Name}, len(e.Name)
	for i := len(e.walk.stack) - 1; i > 0; i-- {
		if length > maxPath {
			names = append(names, "...")
			break
		}
		names, length = append(names, e.walk.stack[i].name), length+len(e.walk.stack[i].name)+1
	}
	slices.Reverse(names)
	return filepath.Join(names...)
}

// Stat returns the status of the entry itself, or of Dir if the name is empty.
func (e Entry) Stat() (is unix.Statx_t, err error) {
	err = unix.Statx(e.Dir, e.Name, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &is)
	return is, err
}

// Visitor has the callbacks of Walk. An error of a callback ends the walk.
type Visitor struct {
	// Visit is called for each entry, for a folder before its content.
	Visit func(Entry) error
	// Leave is called for each folder after its content. Optional.
	Leave func(Entry) error
	// Fail is called with the system's error for a folder that cannot be opened or completely
	// read. If it returns nil, the walk continues after that folder. Optional: without it the
	// walk ends with the error.
	Fail func(Entry, error) error
}

// Walk visits the content of a folder, but not the folder itself, which may be a mount point. It
// skips files that disappear meanwhile. Mount points in the folder are visited and not entered,
// and Walk returns an error that wraps ErrMounted at the end.
func Walk(ctx context.Context, dir string, v Visitor) error {
	w := walk{ctx: ctx, v: v}
	defer w.close()
	if err := w.begin(dir); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	for len(w.stack) > 0 {
		if err := w.step(); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	if len(w.mounted) > 0 {
		return fmt.Errorf("%s: %w: %q", dir, ErrMounted, w.mounted)
	}
	return nil
}

// walk keeps only the folder on top of the stack open.
type walk struct {
	ctx     context.Context
	v       Visitor
	dir     *os.File
	fd      int
	mount   uint64
	stack   []level
	mounted []string // the first few mount points that were not entered
}

// level is an unfinished folder.
type level struct {
	name string
	id   [2]uint64
	dirs []string // to be entered
}

const (
	openDir   = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	batchSize = 1024
	maxListed = 5
)

func (w *walk) begin(dir string) error {
	fd, err := unix.Open(dir, openDir, 0)
	if err != nil {
		return err
	}
	is, err := w.setCurrent(fd)
	if err != nil {
		return err
	}
	w.mount = MountOf(is)
	return w.read(level{id: idOf(is)})
}

// setCurrent makes a folder the open one.
func (w *walk) setCurrent(fd int) (unix.Statx_t, error) {
	w.close()
	// With this name ReadDir can determine the type of an entry if the folder has no types.
	w.dir, w.fd = os.NewFile(uintptr(fd), "/proc/self/fd/"+strconv.Itoa(fd)), fd
	return Entry{Dir: fd}.Stat()
}

func (w *walk) close() {
	if w.dir != nil {
		_ = w.dir.Close() // opened read-only
	}
}

// read pushes the open folder onto the stack, and visits its entries.
func (w *walk) read(l level) error {
	w.stack = append(w.stack, l)
	top := &w.stack[len(w.stack)-1]
	for {
		entries, err := w.dir.ReadDir(batchSize)
		for _, e := range entries {
			if w.ctx.Err() != nil {
				return run.EndOf(w.ctx)
			}
			if err := w.v.Visit(w.entry(e.Name(), e.Type())); err != nil {
				return err
			}
			if e.IsDir() {
				top.dirs = append(top.dirs, e.Name())
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return w.failed(w.entry("", fs.ModeDir), err)
		}
	}
}

func (w *walk) entry(name string, of fs.FileMode) Entry {
	return Entry{Dir: w.fd, Name: name, Type: of, walk: w}
}

// failed calls Fail, and returns nil if the walk continues.
func (w *walk) failed(e Entry, err error) error {
	if w.v.Fail == nil {
		return err
	}
	return w.v.Fail(e, err)
}

// callLeave calls Leave for a finished folder in the open one.
func (w *walk) callLeave(name string) error {
	if w.v.Leave == nil {
		return nil
	}
	return w.v.Leave(w.entry(name, fs.ModeDir))
}

// step enters the next folder, or leaves a finished one.
func (w *walk) step() error {
	top := &w.stack[len(w.stack)-1]
	if len(top.dirs) == 0 {
		return w.ascend()
	}
	last := len(top.dirs) - 1
	name := top.dirs[last]
	top.dirs = top.dirs[:last]
	fd, err := unix.Openat(w.fd, name, openDir, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil // deleted or replaced meanwhile
	case err != nil:
		if err := w.failed(w.entry(name, fs.ModeDir), &fs.PathError{Op: "open", Path: name, Err: err}); err != nil {
			return err
		}
		return w.callLeave(name)
	}
	is, err := Entry{Dir: fd}.Stat()
	if err != nil || MountOf(is) != w.mount {
		_ = unix.Close(fd)
		if len(w.mounted) < maxListed {
			w.mounted = append(w.mounted, name)
		}
		return err
	}
	if _, err := w.setCurrent(fd); err != nil {
		return err
	}
	return w.read(level{name: name, id: idOf(is)})
}

// ascend returns to the parent folder and checks that it is the folder from which the walk came.
func (w *walk) ascend() error {
	done := w.stack[len(w.stack)-1]
	w.stack = w.stack[:len(w.stack)-1]
	if len(w.stack) == 0 {
		return nil
	}
	fd, err := unix.Openat(w.fd, "..", openDir, 0)
	if err != nil {
		return &fs.PathError{Op: "open the parent folder", Path: done.name, Err: err}
	}
	is, err := w.setCurrent(fd)
	if err != nil {
		return err
	}
	if idOf(is) != w.stack[len(w.stack)-1].id {
		return fmt.Errorf("%q: %w", done.name, ErrMoved)
	}
	return w.callLeave(done.name)
}

// MountOf returns the ID of the mount; before Linux 5.8, of the file system.
func MountOf(is unix.Statx_t) uint64 {
	if is.Mask&unix.STATX_MNT_ID != 0 {
		return is.Mnt_id
	}
	return unix.Mkdev(is.Dev_major, is.Dev_minor)
}

func idOf(is unix.Statx_t) [2]uint64 {
	return [2]uint64{unix.Mkdev(is.Dev_major, is.Dev_minor), is.Ino}
}
