//go:build unix

package fs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock locks a file until it is closed or the process ends. It makes a missing file, and follows
// no link. It returns ErrLocked if another open file has the lock.
func TryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, file.Close())
	}
	return file, nil
}
