// Package lockfile lets one of several agents own the node: it locks a file (--lock-file), and
// optionally reports when another agent wants the lock, so that the owner can exit
// (--exit-on-lock-contention).
//
//	lock, err := lockfile.Acquire(ctx, path) // blocks
//	defer lock.Close()
//	go func() { err := lock.Contended(ctx); ... stop }()
//
// It is compatible with the reference kubelet's lock file. The kernel releases the lock when the
// process exits, also after a crash. The file stays.
package lockfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
)

const (
	// retry is the period of attempts to lock.
	retry = 50 * time.Millisecond
	// maxAttempts is the number of attempts before the file is opened again. Opening signals
	// contention, and the owner may not have watched the file the first time.
	maxAttempts = 20
)

// Lock is a lock owned by this process.
type Lock struct{ file *os.File }

// Acquire blocks until it has the lock or ctx is done. It creates a missing file. A symbolic link,
// which another user could have made in a shared folder, is refused.
func Acquire(ctx context.Context, path string) (*Lock, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock file: %w", err)
		}
		l := &Lock{file}
		if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(fmt.Errorf("lock file %s: is not a regular file", path), err, l.Close())
		}
		locked, err := l.try(ctx)
		if err == nil && locked && l.isLinked() {
			return l, nil
		}
		if err := errors.Join(err, l.Close()); err != nil {
			return nil, fmt.Errorf("lock file %s: %w", path, err)
		}
		if ctx.Err() != nil { // the file was replaced after each open
			return nil, fmt.Errorf("lock file %s: %w", path, run.EndOf(ctx))
		}
	}
}

// try attempts to lock, maxAttempts times at most.
func (l *Lock) try(ctx context.Context) (locked bool, err error) {
	for range maxAttempts {
		err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err == nil, err
		}
		if !run.Sleep(ctx, retry) {
			return false, run.EndOf(ctx)
		}
	}
	return false, nil
}

// isLinked reports whether the locked file still has its path.
func (l *Lock) isLinked() bool {
	own, err := l.file.Stat()
	if err != nil {
		return false
	}
	found, err := os.Lstat(l.file.Name())
	return err == nil && os.SameFile(own, found)
}

// Close releases the lock.
func (l *Lock) Close() error { return l.file.Close() }

var errContended = errors.New("contended")

// Contended blocks until another process opens or removes the file, which means that it wants the
// lock, and then returns nil. It returns an error if ctx is done or the file cannot be watched. It
// keeps the lock.
func (l *Lock) Contended(ctx context.Context) error {
	begin := func(q fs.Queue) error {
		_, err := q.Add(l.file.Name(), unix.IN_OPEN|unix.IN_ATTRIB|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF)
		if !l.isLinked() { // it was replaced before the watch began
			return errContended
		}
		return err
	}
	err := fs.Watch(ctx, begin, func(events []fs.Event) error {
		for _, e := range events {
			// Removing an open file changes its attributes; it is deleted only after its last
			// close.
			if e.Mask&unix.IN_ATTRIB == 0 || !l.isLinked() {
				return errContended
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, errContended):
		return nil
	case ctx.Err() != nil:
		return run.EndOf(ctx)
	}
	return fmt.Errorf("lock file %s: %w", l.file.Name(), err)
}
