package fs

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/run"
)

// Changes are all events that can change the files of a folder.
const Changes = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB |
	unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE

// Event is a change of a watched folder, or of an entry in it.
type Event struct {
	Watch int
	Mask  uint32
	Name  string
}

// Queue is the source of events of one Watch. It is safe for concurrent use, also after the end
// of the Watch: Add then fails.
type Queue struct{ raw syscall.RawConn }

// Add watches a folder for events. A folder that is already watched keeps its watch.
func (q Queue) Add(folder string, events uint32) (watch int, err error) {
	var addErr error
	err = q.raw.Control(func(fd uintptr) { watch, addErr = unix.InotifyAddWatch(int(fd), folder, events) })
	return watch, cmp.Or(err, addErr)
}

// Remove ends a watch. An ended watch is no error.
func (q Queue) Remove(watch int) {
	_ = q.raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(watch)) })
}

// Watch calls begin, which adds watches, and then handle with each batch of events, until one of
// them fails or ctx is done. It always returns a non-nil error. In a synctest bubble the error wraps
// errors.ErrUnsupported.
func Watch(ctx context.Context, begin func(Queue) error, handle func([]Event) error) error {
	if run.InBubble() {
		return fmt.Errorf("starting inotify in a synctest bubble, whose clock would stop: %w", errors.ErrUnsupported)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("starting inotify: %w", err)
	}
	file := os.NewFile(uintptr(fd), "inotify")
	defer func() { _ = file.Close() }() // opened read-only
	// A deadline in the past ends the Read; inotify descriptors support deadlines.
	defer context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })()
	raw, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("starting inotify: %w", err)
	}
	if err := begin(Queue{raw}); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := file.Read(buf)
		if err != nil {
			return fmt.Errorf("reading inotify events: %w", err)
		}
		if err := handle(parse(buf[:n])); err != nil {
			return err
		}
	}
}

func parse(batch []byte) (events []Event) {
	for len(batch) >= unix.SizeofInotifyEvent {
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(batch[12:]))
		events = append(events, Event{
			Watch: int(int32(binary.NativeEndian.Uint32(batch[0:]))),
			Mask:  binary.NativeEndian.Uint32(batch[4:]),
			Name:  strings.TrimRight(string(batch[unix.SizeofInotifyEvent:end]), "\x00"),
		})
		batch = batch[end:]
	}
	return events
}

// Written reports whether a file is complete: it was closed after writing, or moved here.
func (e Event) Written() bool { return e.Mask&(unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO) != 0 }

// Writing reports whether the file at path is being written. A regular file that was just
// created by opening it will be written; a link is complete.
func (e Event) Writing(path string) bool {
	if e.Mask&unix.IN_MODIFY != 0 || e.Mask&unix.IN_CREATE == 0 {
		return e.Mask&unix.IN_MODIFY != 0
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 1
}
