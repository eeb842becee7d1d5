package logs

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/podwright/podwright/internal/run"
)

// watch lets any number of followers share one notifier and one clock. It works
// while there are followers: the first one starts it, the last one ends it and
// waits until it has ended.
type watch struct {
	cfg *ReaderConfig

	mu      sync.Mutex
	current *watching // nil without followers
}

// follower is what the watch knows of one follower.
type follower struct {
	dir, base, path string
	container       string
	place           int // in the list of followers
	// wake is given when something may have changed: whoever is woken looks at
	// everything.
	wake run.Signal
	// ask is set when the container may have stopped.
	ask atomic.Bool

	mu   sync.Mutex
	idle bool // waits; file and size are what it has seen
	file fileID
	size int64
}

// changed takes a change in the follower's directory.
func (f *follower) changed(name string, closed bool) {
	rest, ok := strings.CutPrefix(name, f.base)
	if !ok || rest != "" && rest[0] != '.' {
		return // another file, or the directory itself, which the period finds
	}
	if closed && rest == "" {
		f.ask.Store(true)
	}
	f.wake.Wake()
}

// waits tells the watch what the follower has seen before it waits.
func (f *follower) waits(file fileID, size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle, f.file, f.size = true, file, size
}

func (f *follower) works() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = false
}

// look wakes the follower if its file is not as it has seen it.
func (f *follower) look() {
	f.mu.Lock()
	idle, file, size := f.idle, f.file, f.size
	f.mu.Unlock()
	if !idle {
		return
	}
	// Without a file there is neither identity nor size.
	if nowFile, nowSize, _ := look(f.path); nowFile != file || nowSize != size {
		f.wake.Wake()
	}
}

// join adds a follower of the log at path. leave ends that.
func (w *watch) join(ctx context.Context, path, container string) (f *follower, leave func() error) {
	f = &follower{
		dir: filepath.Dir(path), base: filepath.Base(path), path: path,
		container: container, wake: run.NewSignal(),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current == nil {
		w.current = startWatching(ctx, w.cfg)
	}
	current := w.current
	current.add(f)
	return f, func() error { return w.leave(current, f) }
}

func (w *watch) leave(current *watching, f *follower) error {
	w.mu.Lock()
	last := current.remove(f)
	if last {
		w.current = nil
	}
	w.mu.Unlock()
	if !last {
		return nil
	}
	return current.stop()
}
