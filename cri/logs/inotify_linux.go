package logs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// inotifyMask is what is told of a directory: what is written to its files, and
// which files come, go and are closed. Reading is not told.
const inotifyMask = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVE | unix.IN_DELETE |
	unix.IN_CLOSE_WRITE | unix.IN_ONLYDIR

// inotify is a Notifier.
type inotify struct {
	file *os.File
	buf  [4096]byte // of the goroutine that calls Next

	mu   sync.Mutex
	dirs map[int32]string
	wds  map[string]int32
}

// Inotify opens an inotify instance, of which a user may have 128 by default. It
// fails on systems other than Linux.
func Inotify() (Notifier, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	return &inotify{
		file: os.NewFile(uintptr(fd), "inotify"),
		dirs: map[int32]string{},
		wds:  map[string]int32{},
	}, nil
}

func (n *inotify) Add(dir string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	raw, err := n.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	var wd int
	var callErr error
	err = raw.Control(func(fd uintptr) { wd, callErr = unix.InotifyAddWatch(int(fd), dir, inotifyMask) })
	if err = errors.Join(err, callErr); err != nil {
		return fmt.Errorf("inotify: %s: %w", dir, err)
	}
	n.dirs[int32(wd)], n.wds[dir] = dir, int32(wd)
	return nil
}

func (n *inotify) Remove(dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wd, ok := n.wds[dir]
	if !ok {
		return
	}
	delete(n.wds, dir)
	delete(n.dirs, wd)
	if raw, err := n.file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) })
	}
}

func (n *inotify) Close() error { return n.file.Close() }

func (n *inotify) Next(changes []Change) ([]Change, error) {
	count, err := n.file.Read(n.buf[:])
	if err != nil {
		return changes, fmt.Errorf("inotify: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for b := n.buf[:count]; len(b) >= unix.SizeofInotifyEvent; {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if end > len(b) {
			return changes, errors.New("inotify: an event was cut off")
		}
		if change, ok := n.change(wd, mask, b[unix.SizeofInotifyEvent:end]); ok {
			changes = append(changes, change)
		}
		b = b[end:]
	}
	return changes, nil
}

// change translates an event.
func (n *inotify) change(wd int32, mask uint32, name []byte) (Change, bool) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return Change{}, true
	}
	dir, ok := n.dirs[wd]
	if !ok { // removed since
		return Change{}, false
	}
	if mask&unix.IN_IGNORED != 0 {
		delete(n.dirs, wd)
		delete(n.wds, dir)
	}
	name, _, _ = bytes.Cut(name, []byte{0})
	return Change{
		Dir:       dir,
		Name:      string(name),
		Closed:    mask&unix.IN_CLOSE_WRITE != 0,
		Unwatched: mask&unix.IN_IGNORED != 0,
	}, true
}
