package objects

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
)

// Fixed times of a Dir.
const (
	// coalesce is the shortest delay between a change event and its scan. After a scan the
	// next one also waits coalesceScans times the duration of that scan, at most maxPause:
	// scans of a busy folder take a fifth of the time, and slow files do not delay others long.
	coalesce, coalesceScans = 5 * time.Millisecond, 4
	maxPause                = time.Second
	// retry is the delay after a file or folder was unreadable.
	retry = time.Second
	// joinTimeout bounds the wait for blocked calls at the end of Run.
	joinTimeout = 10 * time.Second
)

// Run scans the folder after each change event and at least once per Period, until ctx is done,
// and returns nil, or an error that lists calls that the kernel still blocks. A second call
// returns ErrAlreadyRun.
func (d *Dir) Run(ctx context.Context) error {
	if d.ran.Swap(true) {
		return ErrAlreadyRun
	}
	if err := fs.CheckBubble(d.cfg.NoWatch); err != nil {
		return fmt.Errorf("objects: DirConfig.%w", err)
	}
	return run.All(ctx, func(ctx context.Context) error {
		d.hints.Watch(ctx, d.watch, d.cfg.Logger.With("path", d.cfg.Path, "period", d.cfg.Period))
		<-ctx.Done()
		return nil
	}, d.follow)
}

func (d *Dir) follow(ctx context.Context) error {
	for {
		began := time.Now()
		pause := d.update()
		if pause == 0 {
			pause = d.cfg.Period
		}
		earliest := time.Now().Add(min(coalesceScans*time.Since(began), maxPause))
		minPause := func() time.Duration { return max(coalesce, time.Until(earliest)) }
		if !d.hints.Wait(ctx, min(pause, d.cfg.Period), minPause) {
			break
		}
	}
	deadline := time.Now().Add(joinTimeout)
	blocked := append(d.listings.Wait(joinTimeout), d.readings.Wait(time.Until(deadline))...)
	if len(blocked) > 0 {
		return fmt.Errorf("objects: still reading %s after the stop: %s", joinTimeout, strings.Join(blocked, ", "))
	}
	return nil
}

// update scans the folder, applies the result, and returns the delay until the next scan; 0 means
// no bound.
func (d *Dir) update() time.Duration {
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
	d.hints.Suspects() // the scan covers all suspects
	d.hints.Forget(now)
	select {
	case <-d.scanned:
	default:
		close(d.scanned)
	}
	for _, p := range problems {
		if !slices.Contains(before, p) {
			d.cfg.Logger.Warn("Object file or folder unusable", "path", join(d.cfg.Path, p.Path), "err", p.Message, "keptLastGood", p.KeptLastGood)
		}
	}
	if len(changed) > 0 {
		d.cfg.OnChange(changed)
	}
	return recheck
}

type location struct {
	path string
	key  fs.Key
}

func keysOf(places []location) []fs.Key {
	keys := make([]fs.Key, len(places))
	for i, p := range places {
		keys[i] = p.key
	}
	return keys
}

func (d *Dir) scan() snapshot {
	s := snapshot{files: map[string]reading{}, folders: map[string]Problem{}}
	var all []location
	list := d.list // a copy, because late reads outlive this call
	for folders := []location{{".", fs.Key{Path: d.cfg.Path}}}; len(folders) > 0; {
		keys := keysOf(folders)
		var next []location
		for i, l := range d.listings.All(keys, func(i int) listing { return list(keys[i].Path) }) {
			folder := folders[i].path
			if l == nil {
				s.folders[folder] = Problem{Path: folder, Message: fs.Silence, NoAnswer: true}
				continue
			}
			if !d.listed(&s, folder, l.err) {
				continue
			}
			for _, f := range l.found {
				below := location{path.Join(folder, f.name), f.key}
				if f.folder && mayHaveObjects(below.path) {
					next = append(next, below)
				} else {
					all = append(all, below)
				}
			}
		}
		folders = next
	}
	d.readAll(&s, all)
	return s
}

// mayHaveObjects reports whether a folder can contain objects or namespaces.
func mayHaveObjects(folder string) bool {
	top, namespace, deep := strings.Cut(folder, "/")
	k, ok := kinds[top]
	return ok && (!deep || !k.cluster && !strings.Contains(namespace, "/"))
}

// listed reports whether a folder was listed. A missing folder counts as empty, but if the root
// disappears, its content is unknown.
func (d *Dir) listed(s *snapshot, folder string, err error) bool {
	top := folder == "."
	switch {
	case err == nil:
		d.existed = d.existed || top
		return true
	case errors.Is(err, iofs.ErrNotExist) && !(top && d.existed):
		return false
	}
	s.folders[folder] = Problem{Path: folder, Message: fs.Bare(err), NoAnswer: true}
	return false
}

// readAll reads the files that may have changed.
func (d *Dir) readAll(s *snapshot, all []location) {
	var places []location
	var stamps []stamp
	for _, p := range all {
		stamp, immutable := d.catalog.lastStamp(p.path)
		if _, _, err := objectOf(p.path); err != nil || immutable {
			s.files[p.path] = reading{same: true}
			continue
		}
		places, stamps = append(places, p), append(stamps, stamp)
	}
	keys, read := keysOf(places), d.read
	for i, r := range d.readings.All(keys, func(i int) reading { return read(keys[i].Path, stamps[i]) }) {
		if r == nil {
			r = &reading{silent: true}
		}
		s.files[places[i].path] = *r
	}
}

// watched lists the folders below the root that can contain objects or namespaces.
func (d *Dir) watched() (folders []string) {
	for folder, k := range kinds {
		top := filepath.Join(d.cfg.Path, folder)
		folders = append(folders, top)
		if k.cluster {
			continue
		}
		entries, err := os.ReadDir(top)
		if err != nil {
			continue // the periodic scan finds it later
		}
		for _, e := range entries {
			if e.IsDir() {
				folders = append(folders, filepath.Join(top, e.Name()))
			}
		}
	}
	return folders
}
