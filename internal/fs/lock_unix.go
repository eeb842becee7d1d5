//go:build unix

package fs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock locks a file until it is closed or the process ends. It makes a missing file, and follows
// no link. On a read-only filesystem it locks an existing file. It returns ErrLocked if another open
// file has the lock.
func TryLock(path string) (*os.File, error) {
	const flags = unix.O_NOFOLLOW | unix.O_NONBLOCK
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|flags, 0o600)
	if errors.Is(err, unix.EROFS) {
		if existing, missing := os.OpenFile(path, os.O_RDONLY|flags, 0); missing == nil {
			file, err = existing, nil
		}
	}
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
