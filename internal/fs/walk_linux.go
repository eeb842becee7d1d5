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

// ErrMounted is wrapped by the error of a Walk that has not entered a mount.
var ErrMounted = errors.New("something is mounted")

// ErrMoved is wrapped by the error of a Walk that stood in a folder while that was moved
// somewhere else. It has not visited everything.
var ErrMoved = errors.New("moved meanwhile")

// Entry is what Walk finds in a folder.
type Entry struct {
	// Dir is the open folder, Name the entry's name in it.
	Dir  int
	Name string
	// Type is that of the file, without its permissions.
	Type fs.FileMode

	walk *walk
}

// maxPath is how long the path in a message becomes: that of a deep tree may be long
// without limit.
const maxPath = 4 << 10

// Path is where the entry is below the folder of the walk that has found it, for
// messages. Of what is very deep it is only the end. It is not for use after the call
// that got the entry.
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

// Stat looks at the entry itself, or at Dir if it has no name.
func (e Entry) Stat() (is unix.Statx_t, err error) {
	err = unix.Statx(e.Dir, e.Name, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &is)
	return is, err
}

// Visitor is what Walk calls. An error ends the walk.
type Visitor struct {
	// Visit is called for each entry, for a folder before those in it.
	Visit func(Entry) error
	// Leave, if not nil, is called for each folder after those in it.
	Leave func(Entry) error
	// Fail, if not nil, is called for a folder that cannot be opened or read to its end,
	// with what the system says. Without an error of its own the walk goes on, and leaves
	// the folder. Nil means that the walk ends with the error.
	Fail func(Entry, error) error
}

// Walk visits everything below a folder, but not the folder itself, which may be where
// something is mounted. What vanishes meanwhile is left out. Folders at which something
// is mounted are visited and not entered, and make Walk fail with ErrMounted in the end.
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

// walk holds the folder open that is on top of the stack, and no other.
type walk struct {
	ctx     context.Context
	v       Visitor
	dir     *os.File
	fd      int
	mount   uint64
	stack   []level
	mounted []string // the first few of what was not entered
}

// level is a folder that is not finished.
type level struct {
	name string
	id   [2]uint64
	dirs []string // to be entered yet
}

const (
	openDir   = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	batchSize = 1024
	named     = 5
)

func (w *walk) begin(dir string) error {
	fd, err := unix.Open(dir, openDir, 0)
	if err != nil {
		return err
	}
	is, err := w.hold(fd)
	if err != nil {
		return err
	}
	w.mount = MountOf(is)
	return w.read(level{id: idOf(is)})
}

// hold makes a folder the open one.
func (w *walk) hold(fd int) (unix.Statx_t, error) {
	w.close()
	// By this name the type of an entry can be found where a folder does not tell.
	w.dir, w.fd = os.NewFile(uintptr(fd), "/proc/self/fd/"+strconv.Itoa(fd)), fd
	return Entry{Dir: fd}.Stat()
}

func (w *walk) close() {
	if w.dir != nil {
		_ = w.dir.Close() // nothing was written
	}
}

// read puts the open folder on the stack, and visits its entries.
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

// failed asks whether the walk goes on.
func (w *walk) failed(e Entry, err error) error {
	if w.v.Fail == nil {
		return err
	}
	return w.v.Fail(e, err)
}

// left tells that a folder in the open one is finished.
func (w *walk) left(name string) error {
	if w.v.Leave == nil {
		return nil
	}
	return w.v.Leave(w.entry(name, fs.ModeDir))
}

// step enters the next folder, or leaves one that is finished.
func (w *walk) step() error {
	top := &w.stack[len(w.stack)-1]
	if len(top.dirs) == 0 {
		return w.leave()
	}
	last := len(top.dirs) - 1
	name := top.dirs[last]
	top.dirs = top.dirs[:last]
	fd, err := unix.Openat(w.fd, name, openDir, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil // it is not what it was
	case err != nil:
		if err := w.failed(w.entry(name, fs.ModeDir), &fs.PathError{Op: "open", Path: name, Err: err}); err != nil {
			return err
		}
		return w.left(name)
	}
	is, err := Entry{Dir: fd}.Stat()
	if err != nil || MountOf(is) != w.mount {
		_ = unix.Close(fd)
		if len(w.mounted) < named {
			w.mounted = append(w.mounted, name)
		}
		return err
	}
	if _, err := w.hold(fd); err != nil {
		return err
	}
	return w.read(level{name: name, id: idOf(is)})
}

// leave goes back to the folder above, which must be the one from which it came.
func (w *walk) leave() error {
	done := w.stack[len(w.stack)-1]
	w.stack = w.stack[:len(w.stack)-1]
	if len(w.stack) == 0 {
		return nil
	}
	fd, err := unix.Openat(w.fd, "..", openDir, 0)
	if err != nil {
		return &fs.PathError{Op: "open the folder above", Path: done.name, Err: err}
	}
	is, err := w.hold(fd)
	if err != nil {
		return err
	}
	if idOf(is) != w.stack[len(w.stack)-1].id {
		return fmt.Errorf("%q: %w", done.name, ErrMoved)
	}
	return w.left(done.name)
}

// MountOf tells mounts apart; before Linux 5.8 only file systems.
func MountOf(is unix.Statx_t) uint64 {
	if is.Mask&unix.STATX_MNT_ID != 0 {
		return is.Mnt_id
	}
	return unix.Mkdev(is.Dev_major, is.Dev_minor)
}

func idOf(is unix.Statx_t) [2]uint64 {
	return [2]uint64{unix.Mkdev(is.Dev_major, is.Dev_minor), is.Ino}
}
