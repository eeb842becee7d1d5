package logs

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// watching is a watch at work: one goroutine that waits for the notifier, one
// that looks at the files once a period, one that asks for the containers.
type watching struct {
	cfg    *ReaderConfig
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu        sync.Mutex
	notifier  Notifier // nil while there is none
	stopped   bool
	dirs      map[string]*watchedDir
	followers int
}

type watchedDir struct {
	watched   bool // by the notifier
	warned    bool
	followers map[*follower]struct{}
}

// startWatching outlives the follower that happens to be the first.
func startWatching(ctx context.Context, cfg *ReaderConfig) *watching {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &watching{cfg: cfg, cancel: cancel, dirs: map[string]*watchedDir{}}
	w.open()
	w.done.Go(func() { w.notice(ctx) })
	w.done.Go(func() { w.every(ctx, w.lookAtFiles) })
	if cfg.States != nil {
		w.done.Go(func() { w.every(ctx, func() { w.askForStates(ctx) }) })
	}
	return w
}

// stop ends the goroutines and waits for them.
func (w *watching) stop() error {
	w.cancel()
	w.mu.Lock()
	w.stopped = true
	w.closeNotifier()
	w.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.done.Wait()
	}()
	patience := time.NewTimer(shutdownTimeout)
	defer patience.Stop()
	select {
	case <-ended:
		return nil
	case <-patience.C:
		return fmt.Errorf("States or Notifier has ignored its end for %v", shutdownTimeout)
	}
}

func (w *watching) closeNotifier() {
	if w.notifier != nil {
		_ = w.notifier.Close()
		w.notifier = nil
	}
}

func (w *watching) add(f *follower) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.dirs[f.dir]
	if d == nil {
		d = &watchedDir{followers: map[*follower]struct{}{}}
		w.dirs[f.dir] = d
	}
	d.followers[f] = struct{}{}
	w.followers++
	w.tryDir(f.dir, d)
}

// remove tells whether f was the last.
func (w *watching) remove(f *follower) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.dirs[f.dir]
	delete(d.followers, f)
	if len(d.followers) == 0 {
		delete(w.dirs, f.dir)
		if w.notifier != nil {
			w.notifier.Remove(f.dir)
		}
	}
	w.followers--
	return w.followers == 0
}

// tryDir has the notifier watch a directory. Where it cannot, as when the user
// has too many watches, the period has to do.
func (w *watching) tryDir(dir string, d *watchedDir) {
	if w.notifier == nil || d.watched {
		return
	}
	err := w.notifier.Add(dir)
	d.watched = err == nil
	if err != nil && !d.warned {
		d.warned = true
		w.cfg.Logger.Warn("a log directory is not watched, only looked at", "dir", dir, "period", w.cfg.Period, "error", err)
	}
}

// open opens a notifier and has it watch all directories.
func (w *watching) open() {
	notifier, err := w.cfg.Notify()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.cfg.Logger.Warn("logs are not watched, only looked at", "period", w.cfg.Period, "error", err)
		return
	}
	w.notifier = notifier
	if w.stopped {
		w.closeNotifier()
		return
	}
	for dir, d := range w.dirs {
		d.watched = false
		w.tryDir(dir, d)
	}
}

// notifierTries is how many notifiers may fail one after the other.
const notifierTries = 5

// notice passes on what the notifier tells, until ctx ends. A notifier that fails
// is replaced a period later.
func (w *watching) notice(ctx context.Context) {
	for tries := 0; tries < notifierTries; tries++ {
		w.mu.Lock()
		notifier := w.notifier
		w.mu.Unlock()
		if notifier != nil && w.passOn(ctx, notifier) {
			tries = 0
		}
		if !sleep(ctx, w.cfg.Period) {
			return
		}
		w.open()
		w.pokeAll()
	}
}

// passOn returns when the notifier fails, or is closed. It tells whether anything
// came from it.
func (w *watching) passOn(ctx context.Context, notifier Notifier) (good bool) {
	var changes []Change
	var err error
	for {
		if changes, err = notifier.Next(changes[:0]); err != nil {
			break
		}
		good = true
		for _, c := range changes {
			w.changed(c)
		}
	}
	if ctx.Err() == nil {
		w.cfg.Logger.Warn("logs are not watched for a while, only looked at", "period", w.cfg.Period, "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notifier == notifier {
		w.closeNotifier()
	}
	return good
}

func (w *watching) changed(c Change) {
	if c.Dir == "" {
		w.pokeAll()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.dirs[c.Dir]
	if d == nil {
		return
	}
	if c.Unwatched {
		d.watched = false
	}
	for f := range d.followers {
		f.changed(c.Name, c.Closed)
	}
}

// pokeAll is for changes that were lost. Containers that have stopped are found
// by the period: asking for each at once would be many calls.
func (w *watching) pokeAll() {
	for _, f := range w.all() {
		f.poke()
	}
}

func (w *watching) all() []*follower {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*follower, 0, w.followers)
	for dir, d := range w.dirs {
		w.tryDir(dir, d)
		for f := range d.followers {
			all = append(all, f)
		}
	}
	return all
}

// every calls do once a period.
func (w *watching) every(ctx context.Context, do func()) {
	ticker := time.NewTicker(w.cfg.Period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}

func (w *watching) lookAtFiles() {
	for _, f := range w.all() {
		f.look()
	}
}

// askForStates finds the containers that have stopped. Each follower makes sure
// of that itself.
func (w *watching) askForStates(ctx context.Context) {
	var ids []string
	var asked []*follower
	for _, f := range w.all() {
		if f.container != "" {
			ids, asked = append(ids, f.container), append(asked, f)
		}
	}
	if len(ids) == 0 {
		return
	}
	running, err := w.cfg.States.Running(ctx, ids)
	if err != nil || len(running) != len(ids) {
		return // nothing is known: they run
	}
	for i, f := range asked {
		if !running[i] {
			f.ask.Store(true)
			f.poke()
		}
	}
}

// sleep waits, and tells whether it has waited long enough.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
