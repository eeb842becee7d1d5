package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// fileID identifies a file independent of its name.
type fileID struct{ dev, ino uint64 }

// segment is one open file of a log: the current one or a rotated one.
type segment struct {
	file *os.File
	id   fileID
	// stamp is the stamp of the newest rotated file when this file was opened. Files with later
	// stamps follow this file, or are this file. With placed, stamp is this file's own.
	stamp  string
	placed bool
	pos    int64 // read position, at the beginning of a line after a rewind
	end    int64 // highest read position so far
}

// openSegment opens a file for reading. It refuses all but regular files, and does not block on a
// pipe.
func openSegment(path string) (*segment, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	id, _, err := identify(file)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &segment{file: file, id: id}, nil
}

// openPlain opens a rotated file. Containers with access to the folder can create any file there,
// so it follows no link and does not block on a pipe.
func openPlain(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if _, _, err := identify(file); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

func identify(file *os.File) (fileID, int64, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(file.Fd()), &stat) }); err != nil {
		return fileID{}, 0, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileID{}, 0, errors.New("not a regular file")
	}
	return fileID{uint64(stat.Dev), stat.Ino}, stat.Size, nil
}

func statFile(path string) (fileID, int64, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return fileID{}, 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{uint64(stat.Dev), stat.Ino}, stat.Size, nil
}

func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func openRotated(path string, r rotated) (*segment, error) {
	s, err := openSegment(r.path(path))
	if err != nil {
		return nil, err
	}
	s.stamp, s.placed = r.stamp, true
	return s, nil
}

func (s *segment) close() error { return s.file.Close() }

// Read continues at pos. It returns io.EOF with or after the last bytes.
func (s *segment) Read(p []byte) (int, error) {
	n, err := s.file.ReadAt(p, s.pos)
	s.pos += int64(n)
	s.end = max(s.end, s.pos)
	return n, err
}

func (s *segment) rewind(n int) { s.pos -= int64(n) }

func (s *segment) startOver() { s.pos, s.end = 0, 0 }
