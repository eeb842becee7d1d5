package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// fileID tells files apart, whatever their names.
type fileID struct{ dev, ino uint64 }

// segment is one open file of a log: the one that is written to, or one that a
// rotation has put aside.
type segment struct {
	file *os.File
	id   fileID
	// stamp is the stamp of the newest rotated file when this file was opened. Files
	// with later stamps follow this one, or are this one. With placed it is this
	// file's own.
	stamp  string
	placed bool
	pos    int64 // up to where it has been read, in whole lines after a rewind
	end    int64 // up to where it has been seen
}

// openSegment opens a file for reading. It refuses what is not a regular file,
// without waiting for the other end of a pipe.
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

// openPlain opens a rotated file. Containers that see the folder can put there whatever
// they like: it follows no link, and waits for no pipe.
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

// look returns identity and size of the file that a path names.
func look(path string) (fileID, int64, error) {
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

// openRotated opens an uncompressed rotated file of the log at path.
func openRotated(path string, r rotated) (*segment, error) {
	s, err := openSegment(r.path(path))
	if err != nil {
		return nil, err
	}
	s.stamp, s.placed = r.stamp, true
	return s, nil
}

func (s *segment) close() error { return s.file.Close() }

// Read reads on from pos. It returns io.EOF with or after the last bytes.
func (s *segment) Read(p []byte) (int, error) {
	n, err := s.file.ReadAt(p, s.pos)
	s.pos += int64(n)
	s.end = max(s.end, s.pos)
	return n, err
}

// rewind goes back to read n bytes again.
func (s *segment) rewind(n int) { s.pos -= int64(n) }

// startOver goes back to the beginning of a file that was truncated.
func (s *segment) startOver() { s.pos, s.end = 0, 0 }
