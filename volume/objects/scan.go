package objects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/files"
	"github.com/podwright/podwright/internal/run"
)

// Times of a Dir that nobody needs to set.
const (
	// coalesce is how long after a prompt more of them are waited for, at least. Of a
	// folder in which somebody writes all the time, looks take a fifth of the time, unless
	// the rest between two would be longer than longestRest: what is slow to read holds up
	// what has changed beside it.
	coalesce, coalesceLooks = 5 * time.Millisecond, 4
	longestRest             = time.Second
	// retry is the pause after something did not answer.
	retry = time.Second
	// joinTime is how long Run waits, when it ends, for calls that block.
	joinTime                     = 10 * time.Second
	watchPauseMin, watchPauseMax = time.Second, 20 * time.Second
)

// Run reads the folder, again whenever something in it changes, until ctx is done. A
// call that the kernel does not end is named in the error.
func (d *Dir) Run(ctx context.Context) error {
	if d.ran.Swap(true) {
		return ErrAlreadyRun
	}
	return run.All(ctx, d.watch, d.follow)
}

func (d *Dir) follow(ctx context.Context) error {
	for {
		began := time.Now()
		pause := d.look()
		if pause == 0 {
			pause = d.cfg.Period
		}
		rested := time.Now().Add(min(coalesceLooks*time.Since(began), longestRest))
		if !d.pause(ctx, min(pause, d.cfg.Period), rested) {
			break
		}
	}
	if left := d.asker.calls.Wait(joinTime); len(left) > 0 {
		return fmt.Errorf("objects: still reading %s after the stop: %s", joinTime, strings.Join(left, ", "))
	}
	return nil
}

// pause waits for a prompt, and then for others until all have rested, or for the limit.
// It returns false when ctx is done.
func (d *Dir) pause(ctx context.Context, limit time.Duration, rested time.Time) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-d.hints.Prompt:
		return run.Sleep(ctx, max(coalesce, time.Until(rested)))
	}
}

// look takes a snapshot in and says when to look again at the latest; 0 for any time.
func (d *Dir) look() time.Duration {
	s := d.scan()
	now := time.Now()
	d.mu.Lock()
	changed, recheck := d.catalog.apply(s, func(file string, modTime time.Time) time.Duration {
		return d.hints.Busy(join(d.cfg.Path, file), modTime, now)
	}, now)
	before := d.problems
	d.problems = d.catalog.problems()
	problems := d.problems
	d.mu.Unlock()
	d.hints.Suspects() // every file is looked at, whatever was said
	d.hints.Forget(now)
	select {
	case <-d.looked:
	default:
		close(d.looked)
	}
	for _, p := range problems {
		if !slices.Contains(before, p) {
			d.cfg.Logger.Warn("an object cannot be used", "path", join(d.cfg.Path, p.Path), "err", p.Message, "keptLastGood", p.KeptLastGood)
		}
	}
	if len(changed) > 0 {
		d.cfg.OnChange(changed)
	}
	return recheck
}

// listing is the answer to what is in a folder.
type listing struct {
	found []found
	err   error
}

// scan looks at all files.
func (d *Dir) scan() snapshot {
	s := snapshot{files: map[string]reading{}, folders: map[string]Problem{}}
	asked := map[question]bool{}
	var files []question // with paths below the folder
	for folders := []question{{path: "."}}; len(folders) > 0; {
		full, list := d.below(folders, asked), d.list // of their own: late calls go on
		listings := d.asker.ask(full, func(i int) any {
			found, err := list(full[i].path)
			return listing{found, err}
		})
		var next []question
		for i, q := range folders {
			l, answered := listings[i].(listing)
			if !answered {
				s.folders[q.path] = Problem{Path: q.path, Message: silence, NoAnswer: true}
				continue
			}
			if !d.listed(&s, q.path, l.err) {
				continue
			}
			for _, f := range l.found {
				below := question{path.Join(q.path, f.name), f.id}
				if f.folder && holdsObjects(below.path) {
					next = append(next, below)
				} else {
					files = append(files, below)
				}
			}
		}
		folders = next
	}
	d.readAll(&s, files, asked)
	d.asker.forget(asked)
	return s
}

// holdsObjects tells whether a folder can hold objects, or namespaces.
func holdsObjects(folder string) bool {
	top, namespace, deep := strings.Cut(folder, "/")
	k, ok := kinds[top]
	return ok && (!deep || !k.cluster && !strings.Contains(namespace, "/"))
}

// below makes paths absolute, so that each is asked about once.
func (d *Dir) below(questions []question, asked map[question]bool) []question {
	out := make([]question, len(questions))
	for i, q := range questions {
		out[i] = question{join(d.cfg.Path, q.path), q.id}
		asked[out[i]] = true
	}
	return out
}

// listed tells whether a folder was listed. One that is gone is empty; only that the
// whole folder has gone, after it was there, is no reason to drop everything.
func (d *Dir) listed(s *snapshot, folder string, err error) bool {
	top := folder == "."
	switch {
	case err == nil:
		d.seen = d.seen || top
		return true
	case errors.Is(err, fs.ErrNotExist) && !(top && d.seen):
		return false
	}
	s.folders[folder] = Problem{Path: folder, Message: files.Bare(err), NoAnswer: true}
	return false
}

// readAll reads the files that have changed, as far as can be told.
func (d *Dir) readAll(s *snapshot, files []question, asked map[question]bool) {
	var read []question
	var known []stamp
	for _, q := range files {
		stamp, immutable := d.catalog.known(q.path)
		if _, _, err := objectOf(q.path); err != nil || immutable {
			s.files[q.path] = reading{same: true}
			continue
		}
		read, known = append(read, q), append(known, stamp)
	}
	full, readFile := d.below(read, asked), d.read
	answers := d.asker.ask(full, func(i int) any { return readFile(full[i].path, known[i]) })
	for i, q := range read {
		r, answered := answers[i].(reading)
		if !answered {
			r.silent = true
		}
		s.files[q.path] = r
	}
}

// watch keeps a watch on the folder. Without one the period still finds changes.
func (d *Dir) watch(ctx context.Context) error {
	pause := watchPauseMin
	for {
		started := time.Now()
		err := d.cfg.Watch(ctx, d.cfg.Path, d.hints.Add)
		if ctx.Err() != nil {
			return nil
		}
		d.hints.Reset()
		if errors.Is(err, errors.ErrUnsupported) {
			d.cfg.Logger.Info("objects are not watched, only read periodically", "path", d.cfg.Path, "period", d.cfg.Period)
			<-ctx.Done()
			return nil
		}
		if time.Since(started) > watchPauseMax {
			pause = watchPauseMin
		}
		d.cfg.Logger.Debug("watch on objects ended", "path", d.cfg.Path, "err", err, "retryIn", pause)
		if !run.Sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, watchPauseMax)
	}
}
