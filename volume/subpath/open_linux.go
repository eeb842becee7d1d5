package subpath

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

type opener struct {
	root int
	// names lists the absolute paths of the volume. A link to one of them stays inside.
	names []string
	// mode is the mode of new folders.
	mode uint32
	// created is true if open has created a folder.
	created bool
	// walkOnly disables openat2, which kernels before Linux 5.6 lack.
	walkOnly bool
}

// openVolume opens the folder of a volume. Its path comes from the agent or the administrator
// and may contain symbolic links.
func openVolume(path string) (*opener, error) {
	root, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("volume %s: %w", path, err)
	}
	o := &opener{root: root, names: []string{filepath.Clean(path)}}
	var is unix.Stat_t
	if err := unix.Fstat(root, &is); err != nil {
		o.close()
		return nil, fmt.Errorf("volume %s: %w", path, err)
	}
	o.mode = is.Mode & 0o7777
	real := make([]byte, maxPath+1)
	if n, err := unix.Readlink(pathOf(root), real); err == nil {
		o.names = append(o.names, string(real[:n]))
	}
	return o, nil
}

func (o *opener) close() { _ = unix.Close(o.root) }

// pathOf returns a path to the open file that is independent of the file's name.
func pathOf(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// attempts bounds the calls of openat2 while other processes rename folders.
const attempts = 3

func (o *opener) open(path string) (fd int, err error) {
	if o.walkOnly {
		return o.walk(path)
	}
	for range attempts {
		fd, err = unix.Openat2(o.root, path, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
		})
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	if err == nil {
		return fd, nil
	}
	// The path is missing, contains an absolute link, or the kernel lacks openat2. The walk
	// handles these cases and returns the final error.
	return o.walk(path)
}

// walk opens a sub path folder by folder. It keeps all of these folders open for "..".
func (o *opener) walk(path string) (int, error) {
	w := walk{opener: o, rest: parts(path)}
	for len(w.rest) > 0 {
		name := w.rest[0]
		w.rest = w.rest[1:]
		if err := w.step(name); err != nil {
			w.truncate(0)
			return -1, fmt.Errorf("%q in %q: %w", name, path, err)
		}
	}
	if len(w.open) == 0 {
		return unix.Openat(o.root, ".", unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	last := len(w.open) - 1
	fd := w.open[last]
	w.open = w.open[:last]
	w.truncate(0)
	return fd, nil
}

type walk struct {
	*opener
	open  []int // folders from below the volume's root to the current one
	rest  []string
	links int
}

func parts(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// truncate closes all folders but the first n.
func (w *walk) truncate(n int) {
	for _, fd := range w.open[n:] {
		_ = unix.Close(fd)
	}
	w.open = w.open[:n]
}

func (w *walk) current() int {
	if len(w.open) == 0 {
		return w.root
	}
	return w.open[len(w.open)-1]
}

func (w *walk) step(name string) error {
	switch {
	case name == ".":
		return nil
	case name == ".." && len(w.open) == 0:
		return ErrOutside
	case name == "..":
		w.truncate(len(w.open) - 1)
		return nil
	case len(w.open) >= maxDepth:
		return fmt.Errorf("more than %d folders deep", maxDepth)
	}
	fd, err := w.openOrMake(name)
	if err != nil {
		return err
	}
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		_ = unix.Close(fd)
		return err
	}
	if is.Mode&unix.S_IFMT == unix.S_IFLNK {
		defer unix.Close(fd)
		return w.follow(fd)
	}
	w.open = append(w.open, fd)
	return nil
}

// openOrMake opens an entry of the current folder and creates a missing folder. It opens a link
// itself, not the link's target.
func (w *walk) openOrMake(name string) (int, error) {
	const how = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(w.current(), name, how, 0)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	err = unix.Mkdirat(w.current(), name, w.mode&0o777)
	if err == nil {
		w.created = true
		err = w.chmod(name)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) { // EEXIST: another process created the folder
		return -1, err
	}
	return unix.Openat(w.current(), name, how, 0)
}

// chmod sets the volume's mode on a new folder, because mkdir applies the umask.
func (w *walk) chmod(name string) error {
	fd, err := unix.Openat(w.current(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, w.mode)
}

// follow continues the walk at the target of a link, or fails if the target is outside.
func (w *walk) follow(link int) error {
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	text := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(link, "", text)
	if err != nil {
		return err
	}
	target := string(text[:n])
	if filepath.IsAbs(target) {
		if target, err = w.inside(target); err != nil {
			return err
		}
		w.truncate(0)
	}
	w.rest = append(parts(target), w.rest...)
	return nil
}

// inside converts an absolute path to a path relative to the volume.
func (w *walk) inside(path string) (string, error) {
	for _, name := range w.names {
		if path == name {
			return "", nil
		}
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(name, "/")+"/"); ok {
			return below, nil
		}
	}
	return "", ErrOutside
}
