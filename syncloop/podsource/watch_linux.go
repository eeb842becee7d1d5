package podsource

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/files"
	"github.com/podwright/podwright/internal/inotify"
)

// pathWatch watches one path: the folder above it, to see it appear and vanish,
// and the path itself when that is a folder.
type pathWatch struct {
	queue   inotify.Queue
	path    string
	changed func(Hint)
	above   int // watch descriptor of the folder above, -1 without one
	inside  int // watch descriptor of the path, -1 without one
}

// watchPath watches a folder or a file with inotify. Unlike portable packages it
// sees when a file that was written is closed, so that a manifest is read when it
// is complete and not after a guess.
func watchPath(ctx context.Context, path string, changed func(Hint)) error {
	w := &pathWatch{path: path, changed: changed, above: -1, inside: -1}
	return inotify.Watch(ctx, w.begin, w.events)
}

// begin sets the watches. One of the two is enough.
func (w *pathWatch) begin(q inotify.Queue) error {
	w.queue = q
	above, err := q.Add(filepath.Dir(w.path), inotify.Changes)
	if err == nil {
		w.above = above
	}
	if insideErr := w.enter(); insideErr != nil && err != nil {
		return fmt.Errorf("watching %s: %w", w.path, err)
	}
	w.changed(Hint{})
	return nil
}

// enter watches the path itself if it is a folder.
func (w *pathWatch) enter() error {
	w.inside = -1
	inside, err := w.queue.Add(w.path, inotify.Changes|unix.IN_ONLYDIR)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return err
	}
	w.inside = inside
	return nil
}

func (w *pathWatch) events(batch []inotify.Event) error {
	for _, e := range batch {
		if err := w.event(e); err != nil {
			return err
		}
	}
	return nil
}

func (w *pathWatch) event(e inotify.Event) error {
	switch {
	case e.Mask&unix.IN_Q_OVERFLOW != 0:
		w.changed(Hint{})
	case e.Mask&unix.IN_IGNORED != 0:
		return w.lost(e.Watch)
	case e.Watch == w.inside && e.Name != "":
		// "..data" is the link that a ConfigMap volume swaps.
		if !ignoredName(e.Name) || strings.HasPrefix(e.Name, "..") {
			w.changed(Hint{Path: filepath.Join(w.path, e.Name), State: files.StateOf(filepath.Join(w.path, e.Name), e)})
		}
	case e.Watch == w.above && e.Name == filepath.Base(w.path):
		if e.Mask&unix.IN_MOVED_FROM != 0 && w.inside != -1 {
			// What happens in the folder elsewhere says nothing of this path.
			w.queue.Remove(w.inside)
			w.inside = -1
		}
		if e.Mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 {
			// A folder that cannot be entered is found by the period.
			_ = w.enter()
		}
		w.changed(Hint{Path: w.path, State: files.StateOf(w.path, e)})
	}
	return nil
}

// lost is called when the kernel has ended a watch, since its folder is gone.
func (w *pathWatch) lost(wd int) error {
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
