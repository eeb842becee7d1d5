package stats

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Host returns a folder of this machine, such as "/sys/fs/cgroup" or "/proc": an os.DirFS that
// reads kernel files with few system calls, because a node with a hundred pods reads thousands of
// files per scrape. It keeps the folders of cgroups open; see Cost in the package documentation.
func Host(dir string) fs.FS { return host{os.DirFS(dir).(hostFS), dir, newFolderCache()} }

type hostFS interface {
	fs.ReadDirFS
	fs.StatFS
	fs.ReadLinkFS
}

type host struct {
	hostFS
	dir         string
	folderCache *folderCache
}

var _ fs.ReadFileFS = host{}

func (h host) ReadFile(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "readfile", Path: name, Err: fs.ErrInvalid}
	}
	content, err := readAll(unix.AT_FDCWD, h.dir+"/"+name)
	if err != nil {
		return nil, &fs.PathError{Op: "readfile", Path: name, Err: err}
	}
	return content, nil
}

// usual is the size of the first read; most kernel files are smaller.
const usual = 2048

// readAll reads a file below an open folder.
func readAll(folder int, file string) ([]byte, error) {
	fd, err := retryInterrupted(func() (int, error) { return unix.Openat(folder, file, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var small [usual]byte
	n, err := retryInterrupted(func() (int, error) { return syscall.Read(fd, small[:]) })
	content := append([]byte(nil), small[:max(n, 0)]...)
	// The kernel returns such a file in one read, so a read that leaves room is complete. Larger
	// files are read to the end.
	if err != nil || n < usual/2 {
		return content, err
	}
	for {
		content = slices.Grow(content, len(content))
		n, err := retryInterrupted(func() (int, error) { return syscall.Read(fd, content[len(content):cap(content)]) })
		if err != nil || n == 0 {
			return content, err
		}
		content = content[:len(content)+n]
	}
}

// retryInterrupted repeats an interrupted call.
func retryInterrupted(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
