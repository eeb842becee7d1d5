package objects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/files"
	"github.com/podwright/podwright/internal/inotify"
)

// tree watches a folder, those in it, and those in these. It watches the folder above as
// well, to see it come.
type tree struct {
	queue   inotify.Queue
	root    string
	changed func(Hint)
	folders map[int]string // by watch descriptor
}

// watchTree watches with inotify.
func watchTree(ctx context.Context, root string, changed func(Hint)) error {
	w := &tree{root: root, changed: changed, folders: map[int]string{}}
	return inotify.Watch(ctx, w.begin, w.events)
}

func (w *tree) begin(q inotify.Queue) error {
	w.queue = q
	if err := w.add(filepath.Dir(w.root)); err != nil {
		return fmt.Errorf("watching %s: %w", filepath.Dir(w.root), err)
	}
	if err := w.grow(); err != nil {
		return err
	}
	w.changed(Hint{})
	return nil
}

// add watches one folder. One that is not there, or is no folder, is no error.
func (w *tree) add(folder string) error {
	wd, err := w.queue.Add(folder, inotify.Changes|unix.IN_ONLYDIR)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES):
		return nil
	case err != nil:
		return err
	}
	w.folders[wd] = folder
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

func (w *tree) events(batch []inotify.Event) error {
	grown := false
	for _, e := range batch {
		grown = w.event(e) || grown
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
func (w *tree) event(e inotify.Event) bool {
	folder, ok := w.folders[e.Watch]
	switch {
	case e.Mask&unix.IN_Q_OVERFLOW != 0:
		w.changed(Hint{})
		return true
	case e.Mask&unix.IN_IGNORED != 0:
		delete(w.folders, e.Watch)
		w.changed(Hint{})
		return false
	case !ok, folder == filepath.Dir(w.root) && e.Name != filepath.Base(w.root):
		return false
	}
	path := filepath.Join(folder, e.Name)
	w.changed(Hint{Path: path, State: files.StateOf(path, e)})
	return e.Mask&unix.IN_ISDIR != 0 && e.Mask&(unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_ATTRIB) != 0
}
