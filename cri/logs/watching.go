package logs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// watching is a watch at work: one goroutine that waits for the notifier, one
// that looks at the files once a period, one that asks for the containers.
type watching struct {
	cfg    *ReaderConfig
	cancel context.CancelFunc
	group  run.Group

	mu        sync.Mutex
	notifier  Notifier // nil while there is none
	stopped   bool
	followers followerSet
	periods   int // so far
}

// startWatching outlives the follower that happens to be the first.
func startWatching(ctx context.Context, cfg *ReaderConfig) *watching {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &watching{cfg: cfg, cancel: cancel, followers: newFollowerSet()}
	w.open()
	w.group.Go("notifier", func() { w.notice(ctx) })
	w.group.Go("files", func() { w.every(ctx, w.lookAtFiles) })
	if cfg.States != nil {
		w.group.Go("states", func() { w.every(ctx, func() { w.askForStates(ctx) }) })
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
	if running := w.group.Wait(shutdownTimeout); running != nil {
		return fmt.Errorf("States or Notifier has ignored its end for %v", shutdownTimeout)
	}
	return nil
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
	w.tryDir(w.followers.add(f))
}

// remove tells whether f was the last.
func (w *watching) remove(f *follower) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.followers.remove(f) && w.notifier != nil {
		w.notifier.Remove(f.dir)
	}
	return len(w.followers.list) == 0
}

// tryDir has the notifier watch a directory. Where it cannot, as when the user
// has too many watches, the period has to do.
func (w *watching) tryDir(d *watchedDir) {
	if w.notifier == nil || d.watched {
		return
	}
	err := w.notifier.Add(d.path)
	w.followers.setWatched(d, err == nil)
	if err != nil && !d.warned {
		d.warned = true
		w.cfg.Logger.Warn("a log directory is not watched, only looked at", "dir", d.path, "period", w.cfg.Period, "err", err)
	}
}

// open opens a notifier and has it watch all directories.
func (w *watching) open() {
	notifier, err := w.cfg.Notify()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.cfg.Logger.Warn("logs are not watched, only looked at", "period", w.cfg.Period, "err", err)
		return
	}
	w.notifier = notifier
	if w.stopped {
		w.closeNotifier()
		return
	}
	for _, d := range w.followers.dirs {
		w.tryDir(d)
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
		if !run.Sleep(ctx, w.cfg.Period) {
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
		w.cfg.Logger.Warn("logs are not watched for a while, only looked at", "period", w.cfg.Period, "err", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notifier == notifier {
		w.closeNotifier()
		w.followers.noneWatched()
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
	d := w.followers.dirs[c.Dir]
	if d == nil {
		return
	}
	if c.Unwatched {
		w.followers.setWatched(d, false)
	}
	for f := range d.followers {
		f.changed(c.Name, c.Closed)
	}
}

// pokeAll is for changes that were lost. Containers that have stopped are found
// by the period: asking for each at once would be many calls.
func (w *watching) pokeAll() {
	w.mu.Lock()
	all := w.followers.all()
	w.mu.Unlock()
	for _, f := range all {
		f.wake.Wake()
	}
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

// watchedLooks is every how many periods a log is looked at whose directory is
// watched. Looking at hundreds of idle logs every second would take most of what
// following them takes.
const watchedLooks = 10

func (w *watching) lookAtFiles() {
	for _, f := range w.due() {
		f.look()
	}
}

// due returns the followers whose turn it is to be looked at.
func (w *watching) due() []*follower {
	w.mu.Lock()
	defer w.mu.Unlock()
	for d := range w.followers.unwatched {
		w.tryDir(d)
	}
	w.periods++
	return w.followers.due(w.periods)
}

// askForStates finds the containers that have stopped. Each follower makes sure
// of that itself.
func (w *watching) askForStates(ctx context.Context) {
	w.mu.Lock()
	asked, ids := w.followers.askable()
	w.mu.Unlock()
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
			f.wake.Wake()
		}
	}
}
