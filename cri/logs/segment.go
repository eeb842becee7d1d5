package logs

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// fileID tells files apart, whatever their names.
type fileID struct{ dev, ino uint64 }

// segment is one open file of a log: the one that is written to, or one that a
// rotation has put aside.
type segment struct {
	file *os.File
	id   fileID
	gz   *gzip.Reader // of a compressed file
	// stamp is that of a compressed file, which keeps its name.
	stamp string
	pos   int64 // up to where it has been read, in whole lines after a rewind
	end   int64 // up to where it has been seen
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

// openRotated opens a rotated file of the log at path.
func openRotated(path string, r rotated) (*segment, error) {
	s, err := openSegment(filepath.Join(filepath.Dir(path), r.name))
	if err != nil {
		return nil, err
	}
	if r.gz {
		s.stamp = r.stamp
		if s.gz, err = gzip.NewReader(s.file); err != nil {
			_ = s.close()
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return s, nil
}

func (s *segment) close() error { return s.file.Close() }

// Read reads on from pos. It returns io.EOF with or after the last bytes.
func (s *segment) Read(p []byte) (int, error) {
	var n int
	var err error
	if s.gz != nil {
		n, err = s.gz.Read(p)
	} else {
		n, err = s.file.ReadAt(p, s.pos)
	}
	s.pos += int64(n)
	s.end = max(s.end, s.pos)
	return n, err
}

// rewind goes back to read n bytes again. A compressed file does not change, so
// nobody reads one again.
func (s *segment) rewind(n int) { s.pos -= int64(n) }

// startOver goes back to the beginning of a file that was truncated.
func (s *segment) startOver() { s.pos, s.end = 0, 0 }

// headSize is enough of a file to tell it from others: its first line begins
// with a time in nanoseconds.
const headSize = 256

// head is how an uncompressed file begins.
func (s *segment) head() ([]byte, error) {
	head := make([]byte, headSize)
	n, err := s.file.ReadAt(head, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:n], err
}

// headOf is how a rotated file begins.
func headOf(path string, r rotated) ([]byte, error) {
	s, err := openRotated(path, r)
	if err != nil {
		return nil, err
	}
	defer s.close()
	head := make([]byte, headSize)
	n, err := io.ReadFull(s, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], err
}

// isIn tells whether the segment is the rotated file r. Stamps do not tell that of
// a file which can still be renamed back.
func (s *segment) isIn(path string, r rotated) (bool, error) {
	if s.gz != nil {
		return s.stamp == r.stamp, nil
	}
	if !r.gz {
		id, _, err := look(filepath.Join(filepath.Dir(path), r.name))
		return id == s.id, err
	}
	own, err := s.head()
	if err != nil {
		return false, err
	}
	head, err := headOf(path, r)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, nil // not a file of ours
	}
	return bytes.Equal(own, head), err
}

// firstTime is the time of the first line in head; zero if there is none.
func firstTime(head []byte) time.Time {
	for line := range bytes.Lines(head) {
		if l, err := ParseLine(line); err == nil {
			return l.Timestamp
		}
	}
	return time.Time{}
}
