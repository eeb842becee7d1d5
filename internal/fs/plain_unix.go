//go:build unix

package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// OpenPlain opens a file in a folder that containers may be able to change. It follows no link at
// the path, does not block on a pipe, and opens no device, because that may have effects. flags are
// as in os.OpenFile.
func OpenPlain(path string, flags int, perm os.FileMode) (*os.File, error) {
	info, err := os.Lstat(path)
	create := flags&os.O_CREATE != 0 && errors.Is(err, fs.ErrNotExist)
	if err != nil && !create {
		return nil, err
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, irregular(path)
	}
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() { // replaced meanwhile
		err = irregular(path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func irregular(path string) error { return fmt.Errorf("%s is not a regular file", path) }
