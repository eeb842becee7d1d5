package podsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/syncloop"
)

// FileConfig configures a FileSource.
type FileConfig struct {
	// Path is a folder of manifests, or one manifest. Required. It may appear
	// later. Until then it has no pods; those of a folder that vanishes go on for
	// a Period.
	Path string
	// Merger gets the pods. Required.
	Merger *Merger
	// Source is the name of the source; default "file".
	Source string
	// Decoder decodes the manifests. Its NodeName is required.
	Decoder Decoder
	// Period is the pause between two looks at Path that nothing prompted;
	// default 20 s. It is also how long a folder must be gone, or be another one, before
	// the pods that are missing then are.
	Period time.Duration
	// StateDir is a folder of this source's own, in which the last good version
	// of each manifest is kept, so that one that is broken when the process starts
	// still has it, and of several files with one pod the one that had it before the
	// start has it again. "" keeps it in memory only. It is made when it is needed.
	StateDir string
	// NoWatch is true for a source without inotify, which finds changes after a Period.
	// A synctest bubble needs it: its clock stands while something waits for inotify.
	NoWatch bool
	// Logger receives one line per new or changed problem. nil discards.
	Logger *slog.Logger
}

// Limits and times of a FileSource.
const (
	// maxSize bounds a manifest, and the reply of a server, in bytes.
	maxSize = 10 << 20
	// settle is the time that a file must be missing before its pod is removed, unless
	// the watch reported a deletion, and the time for which a problem must last before it
	// is reported. Editors make both for a moment while they save. New and changed
	// manifests do not wait for it.
	settle = 250 * time.Millisecond
	// coalesce is the least time between two prompted looks.
	coalesce = 10 * time.Millisecond
	// anew is how long a look waits after a deletion instead: some programs, such as
	// git and tar, delete a file and write it anew at once. A pod is stopped as much
	// later.
	anew = 2 * time.Millisecond
	// youngest is how old a file must be before its times tell whether it has
	// changed: some file systems count in steps of 2 s.
	youngest = 3 * time.Second
	// trust is how long the times of files are believed before all are read again,
	// for file systems that do not tell the truth at once.
	trust = time.Minute
	// longestStart is how long the first set waits for files being written.
	longestStart = 2 * time.Second
	// retry is the pause after a look at something that gave no answer.
	retry = time.Second
	// joinTime is how long Run waits, when it ends, for reads that block.
	joinTime = 10 * time.Second
)

// FileSource reads static pods from a folder, or one file, and feeds a Merger.
// It is a syncloop.EventSource. Use NewFileSource.
type FileSource struct {
	cfg     FileConfig
	history *history
	store   store
	hints   *fs.Hints
	// delivered tells that a set has been handed over, looked when the files were
	// looked at last, readAll when each of them was read, whether it seemed to have
	// changed or not; only Run uses them.
	delivered       bool
	looked, readAll time.Time
	reader          *manifestReader
	watch           fs.WatchFunc

	mu       sync.Mutex
	problems []Problem
	paths    map[types.UID]string // of the pods of the newest set
}

var _ syncloop.EventSource = (*FileSource)(nil)

// NewFileSource returns a FileSource and registers it with the Merger, which is
// then not ready before the files have been read.
func NewFileSource(cfg FileConfig) (*FileSource, error) {
	check := fields.Of("podsource: FileConfig")
	check.Required("Path", cfg.Path)
	check.Required("Merger", cfg.Merger)
	check.Required("Decoder.NodeName", cfg.Decoder.NodeName)
	fields.Number(check, "Period", &cfg.Period, 20*time.Second)
	fields.Default(&cfg.Source, "file")
	fields.Logger(&cfg.Logger)
	if err := check.Err(); err != nil {
		return nil, err
	}
	// A relative path would mean another UID for every working directory.
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("podsource: FileConfig.Path: %w", err)
	}
	cfg.Path = path
	if err := cfg.Merger.Register(cfg.Source); err != nil {
		return nil, err
	}
	f := &FileSource{cfg: cfg, hints: fs.NewHints(), reader: newManifestReader(cfg.Path)}
	f.watch = fs.Tree{Root: cfg.Path, Ignore: func(name string) bool {
		return ignoredName(name) && !strings.HasPrefix(name, "..") // "..data" is the link that a ConfigMap volume swaps
	}}.Watch
	if cfg.NoWatch {
		f.watch = fs.NoWatch
	}
	f.store = store{dir: cfg.StateDir, decode: f.decode}
	f.history = &history{
		root: cfg.Path, hold: cfg.Period, settle: settle, deleted: f.hints.WasDeleted,
		earlier: f.store.load, kept: f.store.has, files: map[string]*manifest{}, decode: f.decode,
	}
	return f, nil
}

func (f *FileSource) decode(path string, data []byte) (*v1.Pod, error) {
	return f.cfg.Decoder.Decode(data, originFile+path)
}

// Problems returns what cannot be used at the moment, by path.
func (f *FileSource) Problems() []Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.problems)
}

// Origin returns the file that a pod comes from, "" if none of the newest set has it.
func (f *FileSource) Origin(pod types.UID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paths[pod]
}

// CheckHealth returns an error that names what does not let itself be read: files
// that do not answer, such as links to a file server that is gone, and a folder that
// cannot be listed. The other manifests are followed meanwhile.
func (f *FileSource) CheckHealth() error {
	var errs []error
	for _, p := range f.Problems() {
		if p.NoAnswer {
			errs = append(errs, fmt.Errorf("manifest source %s: %s %s", f.cfg.Source, p.Path, p.Message))
		}
	}
	return errors.Join(errs...)
}

// Run reads the files, again whenever they change, until ctx is done. A read that the
// kernel does not end is named in the error.
func (f *FileSource) Run(ctx context.Context, emit func(syncloop.Event)) error {
	emit(changed(f.cfg.Source))
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watching.Go(func() { f.hints.Watch(ctx, f.watch, f.cfg.Logger.With("path", f.cfg.Path, "period", f.cfg.Period)) })
	started := time.Now()
	for {
		if !f.wait(ctx, f.look(started, emit)) {
			return f.join()
		}
	}
}

// join waits for reads that have not answered.
func (f *FileSource) join() error {
	if left := f.reader.join(joinTime); len(left) > 0 {
		return fmt.Errorf("podsource: still reading %s after the stop: %s", joinTime, strings.Join(left, ", "))
	}
	return nil
}

// wait returns when it is time for another look, or false when ctx is done.
func (f *FileSource) wait(ctx context.Context, recheck time.Duration) bool {
	pause := f.cfg.Period
	if recheck > 0 {
		pause = min(pause, recheck)
	}
	return f.hints.Wait(ctx, pause, func() time.Duration {
		if f.hints.Deletions() {
			return anew
		}
		return coalesce - time.Since(f.looked)
	})
}

// look takes one snapshot and sets the pods that follow from it. It returns the time until
// the next look.
func (f *FileSource) look(started time.Time, emit func(syncloop.Event)) (recheck time.Duration) {
	s := f.read()
	now := time.Now()
	v := f.history.apply(s, func(path string, modTime time.Time) time.Duration {
		return f.hints.Busy(path, modTime, now)
	}, now)
	f.hints.Forget(now)
	f.looked = now
	f.report(v.problems)
	f.remember(v)
	// Before the first set nobody knows what should run. A set without a file
	// that is just being written would have its pod taken for a leftover.
	early := !f.delivered && v.unsettled && now.Sub(started) < longestStart
	if !v.known || early {
		return v.recheck
	}
	f.mu.Lock()
	f.paths = v.paths
	f.mu.Unlock()
	f.cfg.Merger.take(f.cfg.Source, v.pods, nil, true, emit)
	f.dropLost(s, v)
	f.delivered = true
	return v.recheck
}

// read takes one snapshot. Files that a hint names are read; the others only if
// they seem to have changed, and now and then all of them.
func (f *FileSource) read() snapshot {
	named, all := f.hints.Suspects()
	now := time.Now()
	if all || now.Sub(f.readAll) >= trust {
		all, f.readAll = true, now
	}
	return f.reader.snapshot(func(path string) stamp {
		if all || named[path] {
			return stamp{}
		}
		return f.history.stampOf(path)
	})
}

// remember stores new good versions, before their pods can be started. What cannot be
// stored is missed only if the manifest breaks before the next start.
func (f *FileSource) remember(v outcome) {
	var errs []error
	for path, data := range v.learned {
		errs = append(errs, f.store.save(path, data))
	}
	f.storeFailed(errors.Join(errs...))
}

// dropLost drops the stored versions of manifests that are gone. It comes after the
// set, since no pod's end has to wait for it: what is left behind by a crash is dropped
// with the first set of the next start.
func (f *FileSource) dropLost(s snapshot, v outcome) {
	if !v.lost && f.delivered {
		return
	}
	paths := make(map[string]bool, len(s.files))
	for _, r := range s.files {
		paths[r.path] = true
	}
	f.storeFailed(f.store.keep(paths))
}

func (f *FileSource) storeFailed(err error) {
	if err != nil {
		f.cfg.Logger.Warn("cannot store the good versions of manifests", "err", err)
	}
}

// report publishes the problems and logs those that are new.
func (f *FileSource) report(problems []Problem) {
	for i := range problems {
		if problems[i].Path == "" {
			problems[i].Path = f.cfg.Path
		}
	}
	f.mu.Lock()
	before := f.problems
	f.problems = problems
	f.mu.Unlock()
	for _, p := range problems {
		known := slices.ContainsFunc(before, func(b Problem) bool { return b.Path == p.Path && b.Message == p.Message })
		if known {
			continue
		}
		f.cfg.Logger.Warn("manifest cannot be used", "path", p.Path, "err", p.Message, "keptLastGood", p.KeptLastGood)
		if p.rival != nil {
			f.cfg.Merger.warn(f.cfg.Source, []leftOut{{p.rival, filepath.Base(p.Path) + ": " + p.Message}})
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Path == b.Path }) {
			f.cfg.Logger.Info("manifest is no longer a problem", "path", b.Path)
		}
	}
}
