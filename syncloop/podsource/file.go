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
	// Path is a folder of manifests, or one manifest. It may be created later; until then it has
	// no pods. The pods of a vanished folder continue for one Period. Required.
	Path string
	// Merger receives the pods. Required.
	Merger *Merger
	// Source is the name of the source. Default: "file".
	Source string
	// Decoder decodes the manifests. Its NodeName is required.
	Decoder Decoder
	// Period is the period of scans without a trigger. It is also the time after which the pods of
	// a vanished or replaced folder are removed. Default: 20 s.
	Period time.Duration
	// StateDir is a folder that only this source uses. It stores the last good version of each
	// manifest, so that after a restart a broken manifest keeps its pod, and of several files with
	// one pod the previous owner keeps it. It is created on demand. Optional: without it a restart
	// ends the pod of a broken manifest.
	StateDir string
	// NoWatch disables inotify; changes are found after a Period. It is required in a synctest
	// bubble, because the bubble's clock stops while a goroutine waits for inotify.
	NoWatch bool
	// Logger receives one line per new or changed problem. Optional: without it they are
	// discarded.
	Logger *slog.Logger
}

// Limits and times of a FileSource.
const (
	// maxSize bounds a manifest, and the reply of a server, in bytes.
	maxSize = 10 << 20
	// settle is the time that a file must be missing before its pod is removed, unless the watch
	// reported a deletion. It is also the time that a problem must last before it is reported.
	// Editors cause both for a moment while they save. New and changed manifests do not wait.
	settle = 250 * time.Millisecond
	// coalesce is the shortest time between two triggered scans.
	coalesce = 10 * time.Millisecond
	// deletionDelay is the delay of a scan after a deletion, which replaces coalesce.
	deletionDelay = 2 * time.Millisecond
	// absence is the time for which a deleted file is ignored if it is written again at once:
	// longestAbsence at most, until the set without it was handled. The pod restarts then, as with the
	// upstream kubelet.
	absence, longestAbsence = 20 * time.Millisecond, time.Second
	// minStableAge is the age from which the times of a file prove that it is unchanged. Some file
	// systems have a resolution of 2 s.
	minStableAge = 3 * time.Second
	// fullReadPeriod is the period of reading all files, for file systems that update times late.
	fullReadPeriod = time.Minute
	// longestStart bounds the wait of the first set for files that are being written.
	longestStart = 2 * time.Second
	// retry is the pause after a scan of a path that did not respond.
	retry = time.Second
	// joinTime bounds the wait of Run for blocked reads before it returns.
	joinTime = 10 * time.Second
)

// FileSource reads static pods from a folder or one file and passes them to a Merger. It is a
// syncloop.EventSource. Use NewFileSource. Run must not be called concurrently; the other methods
// are safe for concurrent use.
type FileSource struct {
	cfg     FileConfig
	history *history
	store   store
	hints   *fs.Hints
	// delivered is true after the first set. lastScan is the time of the last scan, lastFullRead the time
	// when all files were last read. Only Run uses them.
	delivered              bool
	lastScan, lastFullRead time.Time
	reader                 *manifestReader
	watch                  fs.WatchFunc

	mu       sync.Mutex
	problems []Problem
	paths    map[types.UID]string // by UID, of the newest set
}

var _ syncloop.EventSource = (*FileSource)(nil)

// NewFileSource returns a FileSource and registers it with the Merger, which is not ready until
// the files have been read.
func NewFileSource(cfg FileConfig) (*FileSource, error) {
	check := fields.Of("podsource: FileConfig")
	check.Required("Path", cfg.Path)
	check.Required("Merger", cfg.Merger)
	check.Required("Decoder.NodeName", cfg.Decoder.NodeName)
	check.Checked(fs.CheckBubble(cfg.NoWatch))
	fields.Number(check, "Period", &cfg.Period, 20*time.Second)
	fields.Default(&cfg.Source, "file")
	fields.Logger(&cfg.Logger)
	if err := check.Err(); err != nil {
		return nil, err
	}
	// A relative path would change the UIDs with the working directory.
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
		root: cfg.Path, removalDelay: cfg.Period, settle: settle, wasDeleted: f.hints.WasDeleted, returned: func(string) bool { return false },
		handled:    func() bool { return cfg.Merger.hasHandledNewest(cfg.Source) },
		loadStored: f.store.load, wasStored: f.store.has, files: map[string]*manifest{}, absent: map[string]time.Time{}, decode: f.decode,
	}
	return f, nil
}

func (f *FileSource) decode(path string, data []byte) (*v1.Pod, error) {
	return f.cfg.Decoder.Decode(data, originFile+path)
}

// Problems returns the current problems, sorted by path.
func (f *FileSource) Problems() []Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.problems)
}

// Origin returns the file of a pod in the newest set, or "".
func (f *FileSource) Origin(pod types.UID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paths[pod]
}

// CheckHealth returns an error that names files and folders that do not respond, such as links to
// an unreachable file server or a folder that cannot be listed. Other manifests are still read.
func (f *FileSource) CheckHealth() error {
	var errs []error
	for _, p := range f.Problems() {
		if p.NoAnswer {
			errs = append(errs, fmt.Errorf("manifest source %s: %s %s", f.cfg.Source, p.Path, p.Message))
		}
	}
	return errors.Join(errs...)
}

// Run reads the files, and again after each change, until ctx is done. It then waits up to 10 s for
// reads in progress; its error names those that are still blocked.
func (f *FileSource) Run(ctx context.Context, emit func(syncloop.Event)) error {
	if err := fs.CheckBubble(f.cfg.NoWatch); err != nil {
		return fmt.Errorf("podsource: FileConfig.%w", err)
	}
	emit(changed(f.cfg.Source))
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watching.Go(func() { f.hints.Watch(ctx, f.watch, f.cfg.Logger.With("path", f.cfg.Path, "period", f.cfg.Period)) })
	started := time.Now()
	for {
		if !f.wait(ctx, f.scan(started, emit)) {
			return f.join()
		}
	}
}

// join waits for blocked reads.
func (f *FileSource) join() error {
	if blocked := f.reader.join(joinTime); len(blocked) > 0 {
		return fmt.Errorf("podsource: still reading %s after the stop: %s", joinTime, strings.Join(blocked, ", "))
	}
	return nil
}

// wait blocks until the next scan is due, or returns false when ctx is done.
func (f *FileSource) wait(ctx context.Context, recheck time.Duration) bool {
	pause := f.cfg.Period
	if recheck > 0 {
		pause = min(pause, recheck)
	}
	return f.hints.Wait(ctx, pause, func() time.Duration {
		if f.hints.Deletions() {
			return deletionDelay
		}
		return coalesce - time.Since(f.lastScan)
	})
}

// scan scans the path once and sets the resulting pods. It returns the time until the next scan.
func (f *FileSource) scan(started time.Time, emit func(syncloop.Event)) (recheck time.Duration) {
	began := time.Now()
	s := f.read()
	for _, r := range s.files {
		if !r.dangling && !r.unresponsive {
			f.hints.Found(r.path, began)
		}
	}
	returned := f.hints.Returned()
	f.history.returned = func(path string) bool { return returned[path] }
	now := time.Now()
	v := f.history.apply(s, func(path string, modTime time.Time) time.Duration {
		return f.hints.Busy(path, modTime, now)
	}, now)
	f.hints.Forget(now)
	f.lastScan = now
	f.report(v.problems)
	f.saveGoodVersions(v)
	// A first set without a file that is still being written would make its pod an orphan.
	early := !f.delivered && v.unsettled && now.Sub(started) < longestStart
	if !v.hasSet || early {
		return v.recheck
	}
	f.mu.Lock()
	f.paths = v.paths
	f.mu.Unlock()
	f.cfg.Merger.replaceSet(f.cfg.Source, v.pods, nil, true, emit)
	f.dropRemoved(s, v)
	f.delivered = true
	return v.recheck
}

// read takes one snapshot. It reads files that inotify reported and files that seem changed, and
// periodically all files.
func (f *FileSource) read() snapshot {
	reported, all := f.hints.Suspects()
	now := time.Now()
	if all || now.Sub(f.lastFullRead) >= fullReadPeriod {
		all, f.lastFullRead = true, now
	}
	return f.reader.snapshot(func(path string) stamp {
		if all || reported[path] {
			return stamp{}
		}
		return f.history.stampOf(path)
	})
}

// saveGoodVersions stores new good versions before their pods can start. A failed write matters only if
// the manifest breaks before the next start.
func (f *FileSource) saveGoodVersions(v outcome) {
	var errs []error
	for path, data := range v.goodVersions {
		errs = append(errs, f.store.save(path, data))
	}
	f.logStoreError(errors.Join(errs...))
}

// dropRemoved drops the stored versions of removed manifests. It runs after the set, so that the end
// of pods does not wait for it. The first set after a restart drops versions that a crash left
// behind.
func (f *FileSource) dropRemoved(s snapshot, v outcome) {
	if !v.removed && f.delivered {
		return
	}
	paths := make(map[string]bool, len(s.files))
	for _, r := range s.files {
		if !r.dangling {
			paths[r.path] = true
		}
	}
	f.logStoreError(f.store.retain(paths))
}

func (f *FileSource) logStoreError(err error) {
	if err != nil {
		f.cfg.Logger.Warn("cannot store the last good versions of manifests", "err", err)
	}
}

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
		unchanged := slices.ContainsFunc(before, func(b Problem) bool { return b.Path == p.Path && b.Message == p.Message })
		if unchanged {
			continue
		}
		f.cfg.Logger.Warn("manifest cannot be used", "path", p.Path, "err", p.Message, "keptLastGood", p.KeptLastGood)
		if p.rival != nil {
			f.cfg.Merger.warn(f.cfg.Source, []ignoredPod{{p.rival, filepath.Base(p.Path) + ": " + p.Message}})
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Path == b.Path }) {
			f.cfg.Logger.Info("manifest problem resolved", "path", b.Path)
		}
	}
}
