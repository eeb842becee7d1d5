package fs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Watch watches the tree, and the folder above it, with inotify. Unlike portable packages it
// reports when a written file is closed, so that files are read when they are complete.
func (t Tree) Watch(ctx context.Context, changed func(Hint)) error {
	w := &treeWatch{Tree: t, changed: changed, parent: filepath.Dir(t.Root), folders: map[int]string{}}
	return Watch(ctx, w.begin, w.events)
}

type treeWatch struct {
	Tree
	queue   Queue
	changed func(Hint)
	parent  string
	folders map[int]string // by watch
}

func (w *treeWatch) begin(q Queue) error {
	w.queue = q
	if err := w.grow(); err != nil {
		return err
	}
	w.changed(Hint{})
	return nil
}

// grow watches all current folders. It has no effect on watched ones.
func (w *treeWatch) grow() error {
	if err := w.add(w.parent, w.Root); err != nil {
		return err
	}
	// A folder that is created during Below is found in the next round, or by the watch of its
	// parent.
	for watched := -1; w.Below != nil && watched != len(w.folders); {
		watched = len(w.folders)
		if err := w.add(w.Below()...); err != nil {
			return err
		}
	}
	return w.watching()
}

func (w *treeWatch) add(folders ...string) error {
	for _, folder := range folders {
		watch, err := w.queue.Add(folder, Changes|unix.IN_ONLYDIR)
		switch {
		case err == nil:
			w.folders[watch] = folder
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES):
			// The periodic scan finds it once it can be listed.
		default:
			return fmt.Errorf("watching %s: %w", folder, err)
		}
	}
	return nil
}

// watching returns an error if no folder is watched.
func (w *treeWatch) watching() error {
	if len(w.folders) == 0 {
		return fmt.Errorf("watching %s: neither it nor its parent folder exists", w.Root)
	}
	return nil
}

func (w *treeWatch) events(batch []Event) error {
	grown := false
	for _, e := range batch {
		grown = w.event(e) || grown
	}
	if !grown {
		return w.watching()
	}
	defer w.changed(Hint{}) // changes in a new folder were missed
	return w.grow()
}

// event handles one event, and reports whether there may be new folders to watch.
func (w *treeWatch) event(e Event) bool {
	folder, ok := w.folders[e.Watch]
	path := filepath.Join(folder, e.Name)
	switch {
	case e.Mask&unix.IN_Q_OVERFLOW != 0:
		w.changed(Hint{})
		return true
	case !ok:
		return false
	case e.Mask&unix.IN_IGNORED != 0:
		delete(w.folders, e.Watch)
		w.changed(Hint{})
		return false
	case e.Name == "", folder == w.parent && path != w.Root, folder != w.parent && w.Ignore != nil && w.Ignore(e.Name):
		return false
	}
	w.changed(Hint{Path: path, State: StateOf(path, e)})
	if e.Mask&unix.IN_ISDIR == 0 && path != w.Root { // which may be a link to a folder
		return false
	}
	if e.Mask&(unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM) != 0 {
		w.leave(path)
	}
	return e.Mask&(unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_ATTRIB) != 0
}

// leave ends the watches of a folder that was moved away or replaced, and of its subfolders,
// because their events are about other paths now.
func (w *treeWatch) leave(path string) {
	for watch, folder := range w.folders {
		if folder == path || strings.HasPrefix(folder, path+"/") {
			w.queue.Remove(watch)
			delete(w.folders, watch)
		}
	}
}
