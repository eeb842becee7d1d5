package fs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

type Reader struct {
	// MaxSize is the largest size of a file in bytes.
	MaxSize int64
	// Youngest is the smallest age of a file with a Stamp.
	Youngest time.Duration
}

// Reading is the content of one file, or the reason why it is missing.
type Reading struct {
	Data    []byte
	ModTime time.Time
	// Problem is the reason why the file cannot be read, or "".
	Problem string
	// Stamp identifies the version of the file. Same is true if it is the version that the
	// caller has; it was not read again.
	Stamp Stamp
	Same  bool
	// Vanished is true if the file did not exist. Dangling is true for a link to a missing file,
	// with a Problem.
	Vanished, Dangling bool
}

// Stamp identifies one version of a file by metadata.
type Stamp struct {
	Device, Inode     uint64
	Size              int64
	Modified, Changed int64 // in ns since 1970
}

// ID identifies a file or folder.
type ID struct{ Device, Inode uint64 }

// Read reads a file, unless its stamp is equal to known.
func (rd Reader) Read(path string, known Stamp) Reading {
	now := time.Now()
	info, err := os.Stat(path) // opening a device may have effects, stat has none
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err != nil {
			return Reading{Vanished: true}
		}
		return Reading{Problem: "is a symbolic link to a missing file", Dangling: true}
	}
	if err != nil {
		return Reading{Problem: Bare(err)}
	}
	if problem := rd.unreadable(info); problem != "" {
		return Reading{Problem: problem}
	}
	if s := StampOf(info, rd.Youngest, now); s != (Stamp{}) && s == known {
		return Reading{Same: true, Stamp: s, ModTime: info.ModTime()}
	}
	r, err := rd.regular(path, now)
	if err != nil {
		return Reading{Problem: Bare(err)}
	}
	return r
}

// unreadable returns the reason not to open a file, or "".
func (rd Reader) unreadable(info fs.FileInfo) string {
	switch {
	case !info.Mode().IsRegular():
		return "is " + Describe(info.Mode()) + ", not a file"
	case info.Size() > rd.MaxSize:
		return fmt.Sprintf("has %d bytes, more than the limit of %d", info.Size(), rd.MaxSize)
	}
	return ""
}

// regular reads a file that was a regular one in the previous check. It repeats the check once
// the file is open, and opens it without waiting for the other end of a pipe. The stamp is taken
// before the content, so that a change during the read leads to a different stamp afterwards.
func (rd Reader) regular(path string, now time.Time) (r Reading, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return r, err
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return r, err
	}
	if problem := rd.unreadable(info); problem != "" {
		return Reading{Problem: problem}, nil
	}
	data, err := rd.content(f, info)
	switch {
	case err != nil:
		return r, err
	case int64(len(data)) > rd.MaxSize:
		return Reading{Problem: fmt.Sprintf("has more bytes than the limit of %d", rd.MaxSize)}, nil
	}
	return Reading{Data: data, ModTime: info.ModTime(), Stamp: StampOf(info, rd.Youngest, now)}, nil
}

// content reads an open file. A file with size 0 is not read: files of the kernel have this
// size, and reading some of them blocks or takes content away from other readers.
func (rd Reader) content(f *os.File, info fs.FileInfo) ([]byte, error) {
	if info.Size() == 0 {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(f, rd.MaxSize+1))
}

// Bare returns an error's text without the operation and the path.
func Bare(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return "cannot be read: " + err.Error()
}

// Describe returns the type of a file that is not regular.
func Describe(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	default:
		return "something else"
	}
}
