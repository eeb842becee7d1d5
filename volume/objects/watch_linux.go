package objects

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

// watchedEvents are all that can change the objects in a folder.
const watchedEvents = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB |
	unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ONLYDIR

// tree watches a folder, those in it, and those in these. It watches the folder above as
// well, to see it come.
type tree struct {
	fd      int
	root    string
	changed func(Hint)
	folders map[int32]string // by watch descriptor
}

// watchTree watches with inotify.
func watchTree(ctx context.Context, root string, changed func(Hint)) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("starting inotify: %w", err)
	}
	file := os.NewFile(uintptr(fd), "inotify")
	defer func() { _ = file.Close() }() // nothing was written
	// A deadline in the past ends the Read; an inotify descriptor takes one.
	defer context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })()
	w := &tree{fd: fd, root: root, changed: changed, folders: map[int32]string{}}
	if err := w.add(filepath.Dir(root)); err != nil {
		return fmt.Errorf("watching %s: %w", filepath.Dir(root), err)
	}
	if err := w.grow(); err != nil {
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

// add watches one folder. One that is not there, or is no folder, is no error.
func (w *tree) add(folder string) error {
	wd, err := unix.InotifyAddWatch(w.fd, folder, watchedEvents)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES):
		return nil
	case err != nil:
		return err
	}
	w.folders[int32(wd)] = folder
	return nil
}

// grow watches all folders that are there now. To watch one again changes nothing.
func (w *tree) grow() error {
	if err := w.add(w.root); err != nil {
		return fmt.Errorf("watching %s: %w", w.root, err)
	}
	for folder, k := range kinds {
		if err := w.add(filepath.Join(w.root, folder)); err != nil {
			return fmt.Errorf("watching %s: %w", folder, err)
		}
		if k.cluster {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(w.root, folder))
		if err != nil {
			continue // it is found by the period when it can be listed
		}
		for _, e := range entries {
			if e.IsDir() {
				if err := w.add(filepath.Join(w.root, folder, e.Name())); err != nil {
					return fmt.Errorf("watching %s/%s: %w", folder, e.Name(), err)
				}
			}
		}
	}
	return w.watching()
}

// events handles one batch as the kernel wrote it.
func (w *tree) events(batch []byte) error {
	grown := false
	for len(batch) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(batch[0:]))
		mask := binary.NativeEndian.Uint32(batch[4:])
		length := int(binary.NativeEndian.Uint32(batch[12:]))
		name := strings.TrimRight(string(batch[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length]), "\x00")
		batch = batch[unix.SizeofInotifyEvent+length:]
		grown = w.event(wd, mask, name) || grown
	}
	if grown {
		defer w.changed(Hint{}) // what came with the folder was not seen
		return w.grow()
	}
	return w.watching()
}

// watching is an error when there is nothing left to watch.
func (w *tree) watching() error {
	if len(w.folders) == 0 {
		return fmt.Errorf("watching %s: neither it nor the folder above is there", w.root)
	}
	return nil
}

// event handles one event, and tells whether there may be folders to watch.
func (w *tree) event(wd int32, mask uint32, name string) bool {
	folder, ok := w.folders[wd]
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		w.changed(Hint{})
		return true
	case mask&unix.IN_IGNORED != 0:
		delete(w.folders, wd)
		w.changed(Hint{})
		return false
	case !ok, folder == filepath.Dir(w.root) && name != filepath.Base(w.root):
		return false
	}
	path := filepath.Join(folder, name)
	w.changed(Hint{Path: path, State: fileState(path, mask)})
	return mask&unix.IN_ISDIR != 0 && mask&(unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_ATTRIB) != 0
}

// fileState says what an event tells about a file's content. A regular file that was
// just created by opening it is about to be written; a link is complete.
func fileState(path string, mask uint32) FileState {
	switch {
	case mask&(unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO) != 0:
		return Written
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
