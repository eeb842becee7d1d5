package fsgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/internal/tree"
)

// Apply gives a folder and all below it to a group: files can be read and written by it
// and folders entered, and what is made in them later is the group's, too. Symbolic
// links get the group and nothing else, what is mounted below is left alone. The folder
// itself comes last, so that OnRootMismatch takes up what a crash has broken off.
//
// What fails for a file does not hold back the others: the error names the first few.
func Apply(ctx context.Context, dir string, c Change) error {
	root := tree.Entry{Dir: unix.AT_FDCWD, Name: dir, Type: fs.ModeDir}
	if c.Policy != nil && *c.Policy == v1.FSGroupChangeOnRootMismatch {
		is, err := root.Stat()
		if err != nil {
			return &fs.PathError{Op: "stat", Path: dir, Err: err}
		}
		if c.right(is) {
			return nil
		}
	}
	w := worker{Change: c, due: time.Now().Add(firstProgress)}
	err := tree.Walk(ctx, dir, tree.Visitor{Visit: w.visit})
	if errors.Is(err, tree.ErrMounted) {
		err = nil
	}
	if err == nil {
		err = w.visit(root)
	}
	return run.Join(append(w.failed, err)...)
}

// maxErrors is how many errors of files are kept.
const maxErrors = 5

type worker struct {
	Change
	failed []error
	files  int
	due    time.Time // of the next word on progress
}

func (w *worker) visit(e tree.Entry) error {
	if w.files++; w.Progress != nil && w.files%256 == 0 && time.Now().After(w.due) {
		w.due = w.due.Add(nextProgress)
		w.Progress(w.files)
	}
	err := w.change(e)
	if err != nil && !errors.Is(err, unix.ENOENT) && len(w.failed) < maxErrors {
		w.failed = append(w.failed, &fs.PathError{Op: "give to the group", Path: e.Name, Err: err})
	}
	return nil
}

func (w *worker) change(e tree.Entry) error {
	is, err := e.Stat()
	if err != nil || w.right(is) {
		return err
	}
	// What was looked at may have become something else: from here on it is held.
	fd, err := unix.Openat(e.Dir, e.Name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if is, err = (tree.Entry{Dir: fd}).Stat(); err != nil {
		return err
	}
	if int64(is.Gid) != w.Group {
		if err := unix.Fchownat(fd, "", -1, int(w.Group), unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if is.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	// A change of the owner may have taken bits away.
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), uint32(is.Mode&0o7777)|w.wanted(is)); err != nil {
		return fmt.Errorf("chmod: %w", err)
	}
	return nil
}

// right tells whether nothing has to change.
func (c *Change) right(is unix.Statx_t) bool {
	want := c.wanted(is)
	return int64(is.Gid) == c.Group && uint32(is.Mode)&want == want
}

// wanted are the bits of its mode that a file must have.
func (c *Change) wanted(is unix.Statx_t) uint32 {
	bits := uint32(0o660)
	if c.ReadOnly {
		bits = 0o440
	}
	switch is.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return 0
	case unix.S_IFDIR:
		bits |= unix.S_ISGID | 0o110
	}
	return bits
}
