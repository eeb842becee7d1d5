package podsource

import (
	"cmp"
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

	"github.com/podwright/podwright/internal/files"
	"github.com/podwright/podwright/internal/run"
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
	// MaxSize is the most bytes a manifest may have; default 10 MiB.
	MaxSize int64
	// Settle is how long a file must be gone before its pod is removed, unless
	// the watch saw it deleted, which counts at once, and how long something must
	// be wrong before it is reported; default 250 ms. It bridges what editors do
	// while they save. New and changed manifests do not wait for it.
	Settle time.Duration
	// DropBroken removes the pod of a manifest that turns bad, as the upstream
	// kubelet does. By default the last good version keeps running.
	DropBroken bool
	// StateDir is a folder of this source's own, in which the last good version
	// of each manifest is kept, so that one that is broken when the process starts
	// still has it, and of several files with one pod the one that had it before the
	// start has it again. "" keeps it in memory only. It is made when it is needed.
	StateDir string
	// Watch prompts looks at path: it calls changed whenever something there may
	// have changed, once more when it begins to watch, and blocks until ctx is
	// done or it cannot watch any longer. changed never blocks. An error that is
	// errors.ErrUnsupported ends watching; after others it is called again.
	// Default: inotify on Linux, ErrUnsupported elsewhere. A synctest bubble needs
	// NoWatch: the clock of a bubble stands while something waits for inotify.
	Watch func(ctx context.Context, path string, changed func(Hint)) error
	// OnProblem is called for each new or changed problem, after it was logged.
	// nil calls nothing.
	OnProblem func(Problem)
	// Logger receives one line per new or changed problem. nil discards.
	Logger *slog.Logger
}

// NoWatch is a FileConfig.Watch that watches nothing: changes are found after a Period.
// Unlike inotify it lets the clock of a synctest bubble go on.
func NoWatch(context.Context, string, func(Hint)) error { return errors.ErrUnsupported }

// Hint says that something may have changed: its Path, "" when it is unknown which file,
// and what is known of its content, its State.
type Hint = files.Hint

// FileState says how far the writing of a file has come.
type FileState = files.State

// The states of a file.
const (
	// Changed: something about the file is different.
	Changed = files.Changed
	// Writing: somebody is writing to it; a Hint that it is Written follows.
	Writing = files.Writing
	// Written: it was closed after writing, or moved here. It is complete.
	Written = files.Written
	// Deleted: somebody deleted it. A file that was moved away is not: editors
	// do that to keep the old version while they write the new one.
	Deleted = files.Deleted
)

// The times of a FileSource that nobody needs to set.
const (
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
	joinTime                     = 10 * time.Second
	watchPauseMin, watchPauseMax = time.Second, 20 * time.Second
)

// FileSource reads static pods from a folder, or one file, and feeds a Merger.
// It is a syncloop.EventSource. Use NewFileSource.
type FileSource struct {
	cfg     FileConfig
	history *history
	store   store
	hints   *files.Hints
	// delivered tells that a set has been handed over, looked when the files were
	// looked at last, readAll when each of them was read, whether it seemed to have
	// changed or not; only Run uses them.
	delivered       bool
	looked, readAll time.Time
	reader          *survey

	mu       sync.Mutex
	problems []Problem
	paths    map[types.UID]string // of the pods of the newest set
}

var _ syncloop.EventSource = (*FileSource)(nil)

// NewFileSource returns a FileSource and registers it with the Merger, which is
// then not ready before the files have been read.
func NewFileSource(cfg FileConfig) (*FileSource, error) {
	switch {
	case cfg.Path == "":
		return nil, errors.New("podsource: FileConfig.Path is required")
	case cfg.Merger == nil:
		return nil, errors.New("podsource: FileConfig.Merger is required")
	case cfg.Decoder.NodeName == "":
		return nil, errors.New("podsource: FileConfig.Decoder.NodeName is required")
	case cfg.Period < 0:
		return nil, fmt.Errorf("podsource: FileConfig.Period is negative: %v", cfg.Period)
	case cfg.Settle < 0:
		return nil, fmt.Errorf("podsource: FileConfig.Settle is negative: %v", cfg.Settle)
	}
	// A relative path would mean another UID for every working directory.
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("podsource: FileConfig.Path: %w", err)
	}
	cfg.Path = path
	cfg.Source = cmp.Or(cfg.Source, "file")
	cfg.Period = cmp.Or(cfg.Period, 20*time.Second)
	cfg.Settle = cmp.Or(cfg.Settle, 250*time.Millisecond)
	if cfg.MaxSize <= 0 {
		cfg.MaxSize = 10 << 20
	}
	if cfg.Watch == nil {
		cfg.Watch = watchPath
	}
	if cfg.OnProblem == nil {
		cfg.OnProblem = func(Problem) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := cfg.Merger.Register(cfg.Source); err != nil {
		return nil, err
	}
	f := &FileSource{cfg: cfg}
	f.hints = files.NewHints()
	f.store = store{dir: cfg.StateDir, decode: f.decode}
	f.history = &history{root: cfg.Path, hold: cfg.Period, settle: cfg.Settle, deleted: f.hints.WasDeleted, earlier: f.store.load, kept: f.store.has, dropBroken: cfg.DropBroken, files: map[string]*manifest{}, decode: f.decode}
	f.reader = newSurvey(reader{files.Reader{MaxSize: cfg.MaxSize, Youngest: youngest}})
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
func (f *FileSource) Run(ctx context.Context, _ func(syncloop.Event)) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watching.Go(func() { f.watch(ctx) })
	started := time.Now()
	for {
		recheck, err := f.look(started)
		if err != nil {
			return err
		}
		if !f.wait(ctx, recheck) {
			return f.join()
		}
	}
}

// join waits for reads that have not answered.
func (f *FileSource) join() error {
	if left := f.reader.join(f.cfg.Path, joinTime); len(left) > 0 {
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
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-f.hints.Prompt:
	}
	pause = coalesce - time.Since(f.looked)
	if f.hints.Deletions() {
		pause = anew
	}
	return run.Sleep(ctx, max(pause, 0))
}

// look takes one snapshot and hands over the set that follows from it.
func (f *FileSource) look(started time.Time) (recheck time.Duration, err error) {
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
		return v.recheck, nil
	}
	f.mu.Lock()
	f.paths = v.paths
	f.mu.Unlock()
	if err := f.cfg.Merger.SetConstant(f.cfg.Source, v.pods); err != nil {
		return 0, fmt.Errorf("manifests of %s: %w", f.cfg.Path, err)
	}
	f.dropLost(s, v)
	f.delivered = true
	return v.recheck, nil
}

// read takes one snapshot. Files that a hint names are read; the others only if
// they seem to have changed, and now and then all of them.
func (f *FileSource) read() snapshot {
	named, all := f.hints.Suspects()
	now := time.Now()
	if all || now.Sub(f.readAll) >= trust {
		all, f.readAll = true, now
	}
	known := func(path string) stamp {
		if all || named[path] {
			return stamp{}
		}
		return f.history.stampOf(path)
	}
	return f.reader.all(f.cfg.Path, known, func(path string) bool { return named[path] })
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
		f.cfg.OnProblem(p)
	}
	for _, b := range before {
		if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Path == b.Path }) {
			f.cfg.Logger.Info("manifest is no longer a problem", "path", b.Path)
		}
	}
}

// watch keeps a watch on the path. Without one the period still finds changes.
func (f *FileSource) watch(ctx context.Context) {
	pause := watchPauseMin
	for {
		started := time.Now()
		err := f.cfg.Watch(ctx, f.cfg.Path, f.hints.Add)
		if ctx.Err() != nil {
			return
		}
		f.hints.Reset()
		if errors.Is(err, errors.ErrUnsupported) {
			f.cfg.Logger.Info("manifests are not watched, only read periodically", "path", f.cfg.Path, "period", f.cfg.Period)
			return
		}
		if time.Since(started) > watchPauseMax {
			pause = watchPauseMin
		}
		f.cfg.Logger.Debug("watch on manifests ended", "path", f.cfg.Path, "err", err, "retryIn", pause)
		if !run.Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, watchPauseMax)
	}
}
