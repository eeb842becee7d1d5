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

// Reader reads files.
type Reader struct {
	// MaxSize is the most bytes of a file.
	MaxSize int64
	// Youngest is how old a file must be to be known by its Stamp.
	Youngest time.Duration
}

// Reading is one file: its content, or why there is none.
type Reading struct {
	Data    []byte
	ModTime time.Time
	// Problem is why it cannot be read; empty if it can.
	Problem string
	// Stamp is that of the version that was read. Same tells that the version is known
	// by it, and was not read again.
	Stamp Stamp
	Same  bool
	// Vanished tells that it was gone before it was read.
	Vanished bool
}

// Stamp is what a file system says about one version of a file.
type Stamp struct {
	Device, Inode     uint64
	Size              int64
	Modified, Changed int64 // in ns since 1970
}

// ID tells what is at a path from something else there.
type ID struct{ Device, Inode uint64 }

// Read reads a file, unless it has the stamp that is known.
func (rd Reader) Read(path string, known Stamp) Reading {
	now := time.Now()
	info, err := os.Stat(path) // opening a device may do things; looking at it does not
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err != nil {
			return Reading{Vanished: true}
		}
		return Reading{Problem: "is a symbolic link to nothing"}
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

// unreadable says why a file is not even opened.
func (rd Reader) unreadable(info fs.FileInfo) string {
	switch {
	case !info.Mode().IsRegular():
		return "is " + Describe(info.Mode()) + ", not a file"
	case info.Size() > rd.MaxSize:
		return fmt.Sprintf("has %d bytes, more than the limit of %d", info.Size(), rd.MaxSize)
	}
	return ""
}

// regular reads a file that was regular a moment ago. It looks again once the file is
// open, and opens it in a way that does not wait for the other end of a pipe. The stamp
// is taken before the content: a file that changes meanwhile has another one afterwards.
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

// content reads an open file. One that says that it has no bytes is not read: the files
// of the kernel do, and reading some of them waits, or takes away what others wait for.
func (rd Reader) content(f *os.File, info fs.FileInfo) ([]byte, error) {
	if info.Size() == 0 {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(f, rd.MaxSize+1))
}

// Bare is an error's text without the operation and the path.
func Bare(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return "cannot be read: " + err.Error()
}

// Describe names what is not a regular file.
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
