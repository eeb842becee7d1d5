package ownership

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
)

// Chown is the ChownFunc that changes the owner with a system call.
func Chown(fd int, _ string, uid, gid int) error {
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
}

// Apply gives dir and its content to the group, except other mounts below dir. Files get the
// mode bits 0660 (0440 if ReadOnly) in addition to their own, folders also 0110 and setgid. Of
// symbolic links only the group changes.
//
// Failures of single entries are reported to OnError and in the Result. Apply fails if dir is
// unreadable, if ctx ends, or if a folder moves elsewhere during the walk through it. The root
// is then unchanged.
func Apply(ctx context.Context, dir string, cfg Config) (Result, error) {
	if cfg.Group < 0 || cfg.Group > 1<<32-2 {
		return Result{}, fmt.Errorf("ownership: fsGroup: %d is not a valid group ID", cfg.Group)
	}
	root, st, err := open(unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	if err != nil {
		return Result{}, fmt.Errorf("ownership: %w", &os.PathError{Op: "open", Path: dir, Err: err})
	}
	defer unix.Close(root)
	w := newWalk(ctx, cfg)
	if p := cfg.Policy; p != nil && *p == v1.FSGroupChangeOnRootMismatch && w.correct(&st) {
		return Result{Skipped: true}, nil
	}
	w.mount = fs.MountOf(st)
	err = fs.Walk(ctx, dir, fs.Visitor{Visit: w.visit, Leave: w.leave, Fail: w.fail})
	if err == nil || errors.Is(err, fs.ErrMounted) {
		err = w.checkContext()
	}
	if err != nil {
		return w.result, fmt.Errorf("ownership: %w", err)
	}
	if st, err = (fs.Entry{Dir: root}).Stat(); err == nil {
		err = w.change(root, ".", &st)
	}
	if err != nil {
		w.failed(".", err)
	}
	w.reportProgress()
	return w.result, nil
}

// ApplyFile gives one folder or file to the group, without the content of a folder. It fails if path
// is a symbolic link.
func ApplyFile(path string, cfg Config) error {
	fd, st, err := open(unix.AT_FDCWD, path, 0)
	if err != nil {
		return fmt.Errorf("ownership: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	defer unix.Close(fd)
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return fmt.Errorf("ownership: %w", &os.PathError{Op: "chown", Path: path, Err: unix.ELOOP})
	}
	if err := newWalk(context.Background(), cfg).change(fd, path, &st); err != nil {
		return fmt.Errorf("ownership: %w", err)
	}
	return nil
}

// open opens a name in a folder without following a link, and returns its status. The
// descriptor stays on the same file if the name changes its meaning later.
func open(dir int, name string, how int) (fd int, st unix.Statx_t, err error) {
	fd, err = unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC|how, 0)
	if err != nil {
		return -1, st, err
	}
	if st, err = (fs.Entry{Dir: fd}).Stat(); err != nil {
		_ = unix.Close(fd) // the descriptor has no unwritten data
	}
	return fd, st, err
}

// maxErrors bounds the errors in a Result.
const maxErrors = 5

type walk struct {
	ctx      context.Context
	cfg      Config
	mount    uint64 // mount id of the root
	result   Result
	entries  int
	progress time.Time // time of the next progress report
}

func newWalk(ctx context.Context, cfg Config) *walk {
	if cfg.Chown == nil {
		cfg.Chown = Chown
	}
	if cfg.OnError == nil {
		cfg.OnError = func(string, error) {}
	}
	return &walk{ctx: ctx, cfg: cfg, progress: time.Now().Add(firstProgress)}
}

// visit changes all entries except folders, which are changed after their content.
func (w *walk) visit(e fs.Entry) error {
	if e.Type.IsDir() {
		return nil
	}
	return w.leave(e)
}

// leave changes an entry. It returns an error only if the walk must end.
func (w *walk) leave(e fs.Entry) error {
	if err := w.checkContext(); err != nil {
		return err
	}
	if err := w.entry(e); err != nil {
		w.failed("./"+e.Path(), err)
	}
	w.reportProgress()
	return nil
}

func (w *walk) checkContext() error {
	if w.ctx.Err() != nil {
		return run.EndOf(w.ctx)
	}
	return nil
}

func (w *walk) entry(e fs.Entry) error {
	fd, st, err := open(e.Dir, e.Name, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if fs.MountOf(st) != w.mount {
		return nil
	}
	return w.change(fd, "./"+e.Path(), &st)
}

// fail handles a folder that cannot be read.
func (w *walk) fail(e fs.Entry, err error) error {
	if e.Path() == "" {
		return err // the root of the volume
	}
	w.failed("./"+e.Path(), err)
	return nil
}

func (w *walk) failed(path string, err error) {
	if w.result.Failed++; w.result.Failed <= maxErrors {
		w.result.Err = errors.Join(w.result.Err, err)
	}
	w.cfg.OnError(path, err)
}

// reportProgress reports the progress of a long walk.
func (w *walk) reportProgress() {
	w.entries++
	if now := time.Now(); w.cfg.OnProgress != nil && now.After(w.progress) {
		w.progress = now.Add(nextProgress)
		w.cfg.OnProgress(w.entries)
	}
}

// wanted returns the mode bits that an entry must have.
func (w *walk) wanted(st *unix.Statx_t) uint32 {
	bits := uint32(0o660)
	if w.cfg.ReadOnly {
		bits = 0o440
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return 0
	case unix.S_IFDIR:
		bits |= unix.S_ISGID | 0o110
	}
	return bits
}

func (w *walk) correct(st *unix.Statx_t) bool {
	want := w.wanted(st)
	return int64(st.Gid) == w.cfg.Group && uint32(st.Mode)&want == want
}

// change sets the group and modes of one entry, unless they are correct.
func (w *walk) change(fd int, path string, st *unix.Statx_t) error {
	if w.correct(st) {
		return nil
	}
	w.result.Changed++
	if int64(st.Gid) != w.cfg.Group {
		if err := w.cfg.Chown(fd, path, -1, int(w.cfg.Group)); err != nil {
			return &iofs.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	// The change of the group cleared setuid and setgid; chmod restores them. The path of the
	// descriptor leads to the opened file, even if its name now belongs to another file.
	mode := uint32(st.Mode)&0o7777 | w.wanted(st)
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode); err != nil {
		return &iofs.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}
