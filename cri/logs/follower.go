package logs

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/podwright/podwright/internal/run"
)

// follower is the poller's record of a reading with Follow.
type follower struct {
	dir, base, path string
	container       string
	wake            run.Signal
	// checkStopped is set when the container may have stopped.
	checkStopped atomic.Bool

	mu   sync.Mutex
	idle bool // waiting; file and size are as last read
	file fileID
	size int64
}

// changed handles a change of the file called name in the follower's folder.
func (f *follower) changed(name string, closed bool) {
	rest, ok := strings.CutPrefix(name, f.base)
	if !ok || rest != "" && rest[0] != '.' {
		return // another file, or the folder itself, which the periodic check covers
	}
	if closed && rest == "" {
		f.checkStopped.Store(true)
	}
	f.wake.Wake()
}

// setIdle records the file's identity and size before the follower waits.
func (f *follower) setIdle(file fileID, size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle, f.file, f.size = true, file, size
}

func (f *follower) setBusy() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = false
}

// check wakes the follower if its file has changed since it started to wait.
func (f *follower) check() {
	f.mu.Lock()
	idle, file, size := f.idle, f.file, f.size
	f.mu.Unlock()
	if !idle {
		return
	}
	// A missing file has a zero identity and size.
	if nowFile, nowSize, _ := statFile(f.path); nowFile != file || nowSize != size {
		f.wake.Wake()
	}
}

// join adds a follower of the log at path to the poller, which runs while it has followers. leave
// removes the follower. The last leave waits for the poller's end.
func (r *Reader) join(ctx context.Context, path, container string) (f *follower, leave func() error) {
	f = &follower{
		dir: filepath.Dir(path), base: filepath.Base(path), path: path,
		container: container, wake: run.NewSignal(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.poller == nil {
		r.poller = startPoller(ctx, r)
	}
	poller := r.poller
	poller.add(f)
	return f, func() error { return r.leave(poller, f) }
}

func (r *Reader) leave(p *poller, f *follower) error {
	r.mu.Lock()
	last := p.remove(f)
	if last {
		r.poller = nil
	}
	r.mu.Unlock()
	if !last {
		return nil
	}
	return p.stop()
}
