package ownership

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// Config says what Apply does.
type Config struct {
	// Group is the group that everything gets.
	Group int64
	// Policy OnRootMismatch leaves everything as it is when the root has the group and
	// the modes already; nil and every other policy means always.
	Policy *v1.PodFSGroupChangePolicy
	// ReadOnly gives the group no right to write.
	ReadOnly bool
	// Chown changes owners; nil means Chown of this package.
	Chown ChownFunc
	// OnError is called for each entry that stays as it is, with its path below the
	// volume. The walk goes on. nil means that nobody wants to know.
	OnError func(path string, err error)
	// OnProgress is called with how many entries were looked at when a walk takes long:
	// first after 30 s, then each 60 s. nil means that nobody wants to know.
	OnProgress func(entries int)
}

const firstProgress, nextProgress = 30 * time.Second, 60 * time.Second

// ChownFunc changes the owner of what a descriptor names, which may be a symbolic link
// and may have been opened with O_PATH. -1 leaves an ID as it is. path is where it is
// below the volume, for messages.
type ChownFunc func(fd int, path string, uid, gid int) error

// Chown asks the kernel.
func Chown(fd int, _ string, uid, gid int) error {
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
}

// maxDepth bounds how many folders are open at a time. What is deeper stays as it is.
const maxDepth = 512

// Result is what a walk has done.
type Result struct {
	// Skipped tells that the root was right and nothing was looked at (OnRootMismatch).
	Skipped bool
	// Changed and Failed count entries.
	Changed, Failed int
}

// Apply gives dir and all that is in it to the group, but nothing of what is mounted
// somewhere in it. Files get mode bits 0660 in
// addition to what they have (0440 if ReadOnly), folders these and 0110 and setgid;
// links change their group only. What fails with a single entry is told to OnError and
// is no error of Apply: dir that cannot be opened is one, and that ctx has ended.
func Apply(ctx context.Context, dir string, cfg Config) (Result, error) {
	if cfg.Group < 0 || cfg.Group > 1<<32-2 {
		return Result{}, fmt.Errorf("ownership: fsGroup: %d is no group", cfg.Group)
	}
	if cfg.Chown == nil {
		cfg.Chown = Chown
	}
	if cfg.OnError == nil {
		cfg.OnError = func(string, error) {}
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Result{}, fmt.Errorf("ownership: %w", &os.PathError{Op: "open", Path: dir, Err: err})
	}
	defer unix.Close(root)
	w := &walk{ctx: ctx, cfg: cfg, progress: time.Now().Add(firstProgress)}
	st, err := stat(root)
	if err != nil {
		return Result{}, fmt.Errorf("ownership: %w", &os.PathError{Op: "stat", Path: dir, Err: err})
	}
	w.mount = st.Mnt_id
	if p := cfg.Policy; p != nil && *p == v1.FSGroupChangeOnRootMismatch && w.right(&st) {
		return Result{Skipped: true}, nil
	}
	if err := w.entry(root, ".", 0); err != nil {
		return w.result, fmt.Errorf("ownership of %s: %w", dir, err)
	}
	return w.result, nil
}

// One gives one folder or file to the group, and nothing that is in it. A symbolic
// link at path is refused.
func One(path string, cfg Config) error {
	if cfg.Chown == nil {
		cfg.Chown = Chown
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("ownership: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	defer unix.Close(fd)
	st, err := stat(fd)
	if err != nil {
		return fmt.Errorf("ownership: %w", &os.PathError{Op: "stat", Path: path, Err: err})
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return fmt.Errorf("ownership: %w", &os.PathError{Op: "chown", Path: path, Err: unix.ELOOP})
	}
	w := &walk{ctx: context.Background(), cfg: cfg}
	if err := w.change(fd, path, &st); err != nil {
		return fmt.Errorf("ownership: %w", err)
	}
	return nil
}

type walk struct {
	ctx    context.Context
	cfg    Config
	result Result
	// mount is that of the root; 0 where the kernel does not say (before Linux 5.8).
	mount    uint64
	entries  int
	progress time.Time // when to speak of it
}

func stat(fd int) (st unix.Statx_t, err error) {
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st)
	return st, err
}

// wanted are the mode bits that an entry must have.
func (w *walk) wanted(st *unix.Statx_t) uint32 {
	bits := uint32(0o660)
	if w.cfg.ReadOnly {
		bits = 0o440
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		bits |= unix.S_ISGID | 0o110
	}
	return bits
}

func (w *walk) right(st *unix.Statx_t) bool {
	want := w.wanted(st)
	return int64(st.Gid) == w.cfg.Group && uint32(st.Mode)&want == want
}

// entry changes what fd names, after what is in it. Its error ends the walk.
func (w *walk) entry(fd int, path string, depth int) error {
	if w.ctx.Err() != nil {
		return run.EndOf(w.ctx)
	}
	defer w.tell()
	st, err := stat(fd)
	if err != nil {
		w.failed(path, err)
		return nil
	}
	if st.Mnt_id != w.mount {
		return nil
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := w.folder(fd, path, depth); err != nil {
			return err
		}
	}
	if err := w.change(fd, path, &st); err != nil {
		w.failed(path, err)
	}
	return nil
}

// tell tells of the progress of a walk that takes long.
func (w *walk) tell() {
	w.entries++
	if now := time.Now(); w.cfg.OnProgress != nil && now.After(w.progress) {
		w.progress = now.Add(nextProgress)
		w.cfg.OnProgress(w.entries)
	}
}

func (w *walk) failed(path string, err error) {
	w.result.Failed++
	w.cfg.OnError(path, err)
}

// folder walks what is in a folder.
func (w *walk) folder(fd int, path string, depth int) error {
	if depth >= maxDepth {
		w.failed(path, fmt.Errorf("more than %d folders deep: what is in it stays as it is", maxDepth))
		return nil
	}
	open, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		w.failed(path, err)
		return nil
	}
	dir := os.NewFile(uintptr(open), path)
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if err := w.child(open, name, path+"/"+name, depth+1); err != nil {
				return err
			}
		}
		if err != nil || len(names) == 0 {
			return nil // the end, or a folder that has just been deleted
		}
	}
}

func (w *walk) child(dir int, name, path string, depth int) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		w.failed(path, err)
		return nil
	}
	defer unix.Close(fd)
	return w.entry(fd, path, depth)
}

// change gives one entry its group and modes. What is right already is not touched.
func (w *walk) change(fd int, path string, st *unix.Statx_t) error {
	link := st.Mode&unix.S_IFMT == unix.S_IFLNK
	if w.right(st) || link && int64(st.Gid) == w.cfg.Group {
		return nil
	}
	w.result.Changed++
	if int64(st.Gid) != w.cfg.Group {
		if err := w.cfg.Chown(fd, path, -1, int(w.cfg.Group)); err != nil {
			return &os.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	if link {
		return nil
	}
	// A change of the group has taken setuid and setgid away; this brings them back.
	// The descriptor's own path leads to what was opened, whatever has its name now.
	mode := uint32(st.Mode)&0o7777 | w.wanted(st)
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode); err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}
