package podsource

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What is watched: in a folder of manifests everything that can change them, in
// the folder above only what concerns the path itself.
const (
	watchedEvents = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB |
		unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE
	writtenEvents = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO
)

// inotify watches one path: the folder above it, to see it appear and vanish,
// and the path itself when that is a folder.
type inotify struct {
	fd      int
	path    string
	changed func(Hint)
	above   int // watch descriptor of the folder above, -1 without one
	inside  int // watch descriptor of the path, -1 without one
}

// watchPath watches a folder or a file with inotify. Unlike portable packages it
// sees when a file that was written is closed, so that a manifest is read when it
// is complete and not after a guess.
func watchPath(ctx context.Context, path string, changed func(Hint)) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("starting inotify: %w", err)
	}
	file := os.NewFile(uintptr(fd), "inotify")
	defer func() { _ = file.Close() }() // nothing was written
	// A deadline in the past ends the Read; an inotify descriptor takes one.
	defer context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })()
	w := &inotify{fd: fd, path: path, changed: changed, above: -1, inside: -1}
	if err := w.begin(); err != nil {
		return err
	}
	changed(Hint{})
	buf := make([]byte, 64<<10)
	for {
		n, err := file.Read(buf)
		if err != nil {
			return fmt.Errorf("reading inotify events: %w", err)
		}
		if err := w.events(buf[:n]); err != nil {
			return err
		}
	}
}

// begin sets the watches. One of the two is enough.
func (w *inotify) begin() error {
	above, err := unix.InotifyAddWatch(w.fd, filepath.Dir(w.path), watchedEvents)
	if err == nil {
		w.above = above
	}
	if insideErr := w.enter(); insideErr != nil && err != nil {
		return fmt.Errorf("watching %s: %w", w.path, err)
	}
	return nil
}

// enter watches the path itself if it is a folder.
func (w *inotify) enter() error {
	w.inside = -1
	inside, err := unix.InotifyAddWatch(w.fd, w.path, watchedEvents|unix.IN_ONLYDIR)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return err
	}
	w.inside = inside
	return nil
}

// events handles one batch as the kernel wrote it.
func (w *inotify) events(batch []byte) error {
	for len(batch) >= unix.SizeofInotifyEvent {
		wd := int(int32(binary.NativeEndian.Uint32(batch[0:])))
		mask := binary.NativeEndian.Uint32(batch[4:])
		length := int(binary.NativeEndian.Uint32(batch[12:]))
		name := strings.TrimRight(string(batch[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length]), "\x00")
		batch = batch[unix.SizeofInotifyEvent+length:]
		if err := w.event(wd, mask, name); err != nil {
			return err
		}
	}
	return nil
}

func (w *inotify) event(wd int, mask uint32, name string) error {
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		w.changed(Hint{})
	case mask&unix.IN_IGNORED != 0:
		return w.lost(wd)
	case wd == w.inside && name != "":
		// "..data" is the link that a ConfigMap volume swaps.
		if !ignoredName(name) || strings.HasPrefix(name, "..") {
			w.changed(Hint{Path: filepath.Join(w.path, name), State: fileState(filepath.Join(w.path, name), mask)})
		}
	case wd == w.above && name == filepath.Base(w.path):
		if mask&unix.IN_MOVED_FROM != 0 && w.inside != -1 {
			// What happens in the folder elsewhere says nothing of this path.
			_, _ = unix.InotifyRmWatch(w.fd, uint32(w.inside))
			w.inside = -1
		}
		if mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 {
			// A folder that cannot be entered is found by the period.
			_ = w.enter()
		}
		w.changed(Hint{Path: w.path, State: fileState(w.path, mask)})
	}
	return nil
}

// lost is called when the kernel has ended a watch, since its folder is gone.
func (w *inotify) lost(wd int) error {
	switch wd {
	case w.inside:
		w.inside = -1
		w.changed(Hint{})
		if w.above == -1 {
			return fmt.Errorf("watching %s: it is gone", w.path)
		}
	case w.above:
		return fmt.Errorf("watching %s: the folder above it is gone", w.path)
	}
	return nil
}

// fileState says what an event tells about a file's content. A regular file that was
// just created by opening it is about to be written; a link is complete.
func fileState(path string, mask uint32) FileState {
	switch {
	case mask&writtenEvents != 0:
		return Written
	case mask&unix.IN_DELETE != 0:
		return Deleted
	case mask&unix.IN_MODIFY != 0:
		return Writing
	case mask&unix.IN_CREATE != 0:
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			return Changed
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink == 1 {
			return Writing
		}
	}
	return Changed
}
