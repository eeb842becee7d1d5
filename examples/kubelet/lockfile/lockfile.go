// Package lockfile is how two agents agree which of them has the node: by a lock on a
// file (--lock-file), and, if the one that has it is to make room, by noticing that
// another one wants it (--exit-on-lock-contention).
//
//	lock, err := lockfile.Acquire(ctx, path) // waits
//	defer lock.Close()
//	go func() { err := lock.Contended(ctx); ... stop }()
//
// A reference kubelet does the same with the same file, so either may follow the other.
// The kernel drops the lock with the process, however that ends. The file stays.
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
	// retry is how often it is looked at whether the lock is free.
	retry = 50 * time.Millisecond
	// knock is how many looks it takes until the file is opened again: the holder may not
	// have been watching when it was opened first.
	knock = 20
)

// Lock is a lock that this process has.
type Lock struct{ file *os.File }

// Acquire waits until nobody else has the lock, or ctx ends. It makes the file if there is
// none.
func Acquire(ctx context.Context, path string) (*Lock, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock file: %w", err)
		}
		l := &Lock{file}
		locked, err := l.try(ctx)
		if err == nil && locked && l.there() {
			return l, nil
		}
		if err := errors.Join(err, l.Close()); err != nil {
			return nil, fmt.Errorf("lock file %s: %w", path, err)
		}
	}
}

// try tries for a while.
func (l *Lock) try(ctx context.Context) (locked bool, err error) {
	for range knock {
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

// there tells whether the file that was locked is the one that others find.
func (l *Lock) there() bool {
	own, err := l.file.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(l.file.Name())
	return err == nil && os.SameFile(own, found)
}

// Close lets the next one have the lock.
func (l *Lock) Close() error { return l.file.Close() }

var errContended = errors.New("contended")

// Contended returns nil when somebody else opens the file, or removes it: he wants the
// lock. Otherwise it returns when ctx ends, or why it cannot tell. The lock is kept.
func (l *Lock) Contended(ctx context.Context) error {
	begin := func(q fs.Queue) error {
		_, err := q.Add(l.file.Name(), unix.IN_OPEN|unix.IN_ATTRIB|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF)
		if !l.there() { // by the time that it was watched
			return errContended
		}
		return err
	}
	err := fs.Watch(ctx, begin, func(events []fs.Event) error {
		for _, e := range events {
			// A file that is open is not deleted, but loses its name.
			if e.Mask&unix.IN_ATTRIB == 0 || !l.there() {
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
