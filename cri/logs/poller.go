package logs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// watchedPeriods is the number of periods between two checks of a log whose folder is watched.
// Checking hundreds of idle logs every second would cost most of the CPU time of following.
const watchedPeriods = 10

// poller wakes the followers of a Reader. Once a period it checks files and requests the states of
// all containers. A notifier shortens the delay.
type poller struct {
	reader     *Reader
	cancel     context.CancelFunc
	group      run.Group
	requesting atomic.Bool // a request of states is running

	mu      sync.Mutex
	watcher folders // nil without a notifier
	dirs    map[string]*folder
	watches map[int]*folder
	periods int // so far
	added   int // folders so far
}

type folder struct {
	path      string
	watched   bool
	watch     int
	warned    bool
	phase     int // its logs are checked when the period modulo watchedPeriods is phase
	followers map[*follower]struct{}
}

// notifyFunc watches folders until ctx is done or it fails. It calls begin before the first
// change, and then changed, from one goroutine. Its error is never nil.
type notifyFunc func(ctx context.Context, begin func(folders), changed func([]change)) error

// folders are the folders that a notifier watches. Both methods may be called concurrently, also
// after the notifier has failed.
type folders interface {
	// Add watches a folder. The watch identifies it in changes.
	Add(folder string) (watch int, err error)
	// Remove ends a watch.
	Remove(watch int)
}

type change struct {
	watch  int
	name   string // of the file; "" for the folder itself
	closed bool   // a writer has closed the file
	lost   bool   // changes in any folder were lost
	ended  bool   // the folder was removed; it is not watched any longer
}

// startPoller starts a poller that does not end with ctx, which belongs to the first follower.
func startPoller(ctx context.Context, r *Reader) *poller {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &poller{reader: r, cancel: cancel, dirs: map[string]*folder{}, watches: map[int]*folder{}}
	p.group.Go("notifier", func() { p.notice(ctx) })
	p.group.Go("poller", func() { p.poll(ctx) })
	return p
}

func (p *poller) stop() error {
	p.cancel()
	if running := p.group.Wait(shutdownTimeout); running != nil {
		return fmt.Errorf("States has ignored the end of its context for %v", shutdownTimeout)
	}
	return nil
}

func (p *poller) add(f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.dirs[f.dir]
	if d == nil {
		d = &folder{path: f.dir, phase: p.added % watchedPeriods, followers: map[*follower]struct{}{}}
		p.added++
		p.dirs[f.dir] = d
		p.watch(d)
	}
	d.followers[f] = struct{}{}
}

// remove reports whether f was the last follower.
func (p *poller) remove(f *follower) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.dirs[f.dir]
	delete(d.followers, f)
	if len(d.followers) > 0 {
		return false
	}
	delete(p.dirs, f.dir)
	if d.watched {
		delete(p.watches, d.watch)
		p.watcher.Remove(d.watch)
	}
	return len(p.dirs) == 0
}

// watch makes the notifier watch a folder. If that fails, for instance because the user has too
// many watches, the periodic check finds changes. The caller holds mu.
func (p *poller) watch(d *folder) {
	if p.watcher == nil || d.watched {
		return
	}
	watch, err := p.watcher.Add(d.path)
	if err == nil {
		d.watch, d.watched = watch, true
		p.watches[watch] = d
	} else if !d.warned {
		d.warned = true
		p.reader.cfg.Logger.Warn("cannot watch a log directory; polling it", "dir", d.path, "period", p.reader.period, "err", err)
	}
}

// notice runs a notifier, and restarts it a period after it has failed.
func (p *poller) notice(ctx context.Context) {
	for warned := false; ; warned = true {
		err := p.reader.notify(ctx, p.begin, p.changed)
		if ctx.Err() != nil {
			return
		}
		if !warned {
			p.reader.cfg.Logger.Warn("cannot watch logs; polling them", "period", p.reader.period, "err", err)
		}
		p.unwatch()
		if errors.Is(err, errors.ErrUnsupported) || !run.Sleep(ctx, p.reader.period) {
			return
		}
	}
}

// begin registers all folders with a new notifier. Earlier changes were lost, so it wakes all
// followers.
func (p *poller) begin(watcher folders) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watcher = watcher
	for _, d := range p.dirs {
		p.watch(d)
	}
	p.wakeAll()
}

func (p *poller) unwatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watcher = nil
	clear(p.watches)
	for _, d := range p.dirs {
		d.watched = false
	}
}

func (p *poller) changed(changes []change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range changes {
		d := p.watches[c.watch]
		switch {
		case c.lost:
			p.wakeAll()
		case d == nil: // removed since
		case c.ended:
			d.watched = false
			delete(p.watches, c.watch)
		default:
			for f := range d.followers {
				f.changed(c.name, c.closed)
			}
		}
	}
}

// wakeAll wakes all followers after lost changes. It leaves the detection of stopped containers to
// the periodic request, to avoid one request per container at once. The caller holds mu.
func (p *poller) wakeAll() {
	for _, d := range p.dirs {
		for f := range d.followers {
			f.wake.Wake()
		}
	}
}

// poll checks files and requests states once a period.
func (p *poller) poll(ctx context.Context) {
	ticker := time.NewTicker(p.reader.period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, f := range p.dueFollowers() {
			f.check()
		}
		// A slow runtime does not delay the next check.
		if p.reader.cfg.States != nil && !p.requesting.Swap(true) {
			p.group.Go("states", func() {
				defer p.requesting.Store(false)
				p.requestStates(ctx)
			})
		}
	}
}

// dueFollowers returns the followers to check in this period: all in folders without a watch, and a part of
// the rest.
func (p *poller) dueFollowers() (due []*follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.periods++
	for _, d := range p.dirs {
		if d.watched && d.phase != p.periods%watchedPeriods {
			continue
		}
		p.watch(d)
		for f := range d.followers {
			due = append(due, f)
		}
	}
	return due
}

// requestStates wakes the followers whose containers have stopped. Each follower verifies that
// itself.
func (p *poller) requestStates(ctx context.Context) {
	var requested []*follower
	var ids []string
	p.mu.Lock()
	for _, d := range p.dirs {
		for f := range d.followers {
			if f.container != "" {
				requested, ids = append(requested, f), append(ids, f.container)
			}
		}
	}
	p.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	running, err := p.reader.cfg.States.Running(ctx, ids)
	if err != nil || len(running) != len(ids) {
		return // unknown counts as running
	}
	for i, f := range requested {
		if !running[i] {
			f.checkStopped.Store(true)
			f.wake.Wake()
		}
	}
}
