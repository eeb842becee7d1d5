package podsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
)

// SavedConfig configures a Saved. Inner, Dir and Sources are required.
type SavedConfig struct {
	// Inner provides the pods, such as a Merger.
	Inner syncloop.PodSource
	// Dir is the folder of the saved sets. It is created. No other program may use it.
	Dir string
	// Sources are the names of the sources to save. The pods of others are passed on.
	Sources []string
	// Logger receives failures of the disk. Default: discard.
	Logger *slog.Logger
}

// Saved is a syncloop.PodSource that saves the newest complete set of each source on the disk. After
// a restart it provides the saved set until Inner has delivered one, so that a node without its
// control plane starts its pods. Use NewSaved. It is safe for concurrent use.
//
// Run it as one of the Loop's sources, and use it as the Loop's Pods:
//
//	saved, err := podsource.NewSaved(podsource.SavedConfig{Inner: merger, Dir: dir, Sources: []string{"api"}})
//	cfg := syncloop.Config{Pods: saved, Sources: map[string]syncloop.EventSource{"api": api, "saved": saved}}
//
// A source with a saved set counts as ready only after Inner has delivered: unknown pods of the
// runtime stay until then. A new set is on the disk before the Loop handles it. If that fails, or lasts
// longer than 5 s, the set is used and Err returns the error. A slow write continues, and the
// newest set is written last.
//
// # Files
//
// The format is stable. Dir has a folder per source, with a file per version of a pod and the files
// "set" and "set.previous", which list the versions of a set. Each file begins with a line that has
// the version of the format and the checksum of the rest, in JSON:
//
//	podwright-saved 1 sha256:6d1c...
//
// A set is replaced as a whole: after kill -9 at any moment the old set or the new one is complete.
// A damaged file is replaced by the one of the previous set. A file of a newer format is an error.
type Saved struct {
	cfg    SavedConfig
	save   func(folder savedFolder, pods []*v1.Pod, now time.Time) error // savedFolder.save
	writes run.Group

	mu      sync.Mutex // unlocked during a write
	sources map[string]*savedSource
}

// saveWithin bounds the wait of Pods for a write, so that a hanging disk does not stop the Loop.
const saveWithin = 5 * time.Second

type savedSource struct {
	folder savedFolder
	// stored is the set of the disk, nil without one. storedAt is the time when it was saved.
	stored   []*v1.Pod
	storedAt time.Time
	// current is the newest set of Inner. It is on the disk unless err or writing is set.
	current   []*v1.Pod
	delivered bool
	err       error
	// writing is closed when the set on the disk is current, or the last write has failed. It is nil
	// while no write is in progress.
	writing chan struct{}
	// renewed is true if current has changed since the write in progress began.
	renewed bool
	// late is true if the write in progress lasts longer than saveWithin.
	late bool
}

var (
	_ syncloop.PodSource       = (*Saved)(nil)
	_ syncloop.EventSource     = (*Saved)(nil)
	_ syncloop.SourceReadiness = (*Saved)(nil)
)

// NewSaved checks the configuration and reads the saved sets. It returns an error that names the
// file if a file is unreadable, has a newer format, or is damaged without a previous version.
func NewSaved(cfg SavedConfig) (*Saved, error) {
	f := fields.Of("podsource: SavedConfig")
	f.Required("Inner", cfg.Inner)
	f.Absolute("Dir", cfg.Dir)
	if len(cfg.Sources) == 0 {
		f.Refuse("Sources is required")
	}
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	s := &Saved{cfg: cfg, save: savedFolder.save, sources: map[string]*savedSource{}}
	for _, name := range cfg.Sources {
		folder, err := newSavedFolder(cfg.Dir, name)
		if err != nil {
			return nil, fmt.Errorf("podsource: SavedConfig.Sources: %w", err)
		}
		source := &savedSource{folder: folder}
		if source.stored, source.storedAt, err = folder.load(); err != nil {
			return nil, fmt.Errorf("podsource: saved pods of source %s: %w", name, err)
		}
		s.sources[name] = source
	}
	return s, nil
}

// Pods implements syncloop.PodSource. It saves a new set before it returns it, unless the write lasts
// longer than 5 s.
func (s *Saved) Pods(source string) (pods []*v1.Pod, delivered bool) {
	pods, delivered, writing := s.read(source)
	if writing != nil && !run.Wait(writing, saveWithin) {
		s.reportLate(source, writing)
	}
	return pods, delivered
}

// read returns the newest set, and the write to wait for, or nil. It begins that write.
func (s *Saved) read(source string) (pods []*v1.Pod, delivered bool, writing <-chan struct{}) {
	s.mu.Lock() // before Inner is read: two callers must not save their sets in the wrong order
	defer s.mu.Unlock()
	pods, delivered = s.cfg.Inner.Pods(source)
	saved := s.sources[source]
	switch {
	case saved == nil:
		return pods, delivered, nil
	case !delivered:
		return slices.Clone(saved.stored), saved.stored != nil, nil
	case !saved.delivered || !slices.Equal(pods, saved.current):
		saved.current, saved.delivered, saved.renewed = slices.Clone(pods), true, true
	case saved.err == nil && saved.writing == nil:
		return pods, true, nil
	}
	if saved.writing == nil {
		saved.writing = make(chan struct{})
		s.writes.Go("write of the pods of source "+source, func() { s.write(source, saved) })
	}
	if saved.late {
		return pods, true, nil
	}
	return pods, true, saved.writing
}

// write saves the newest set until it is on the disk or a write fails. One write of a source runs at a
// time, so that an older set never replaces a newer one.
func (s *Saved) write(source string, saved *savedSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for again := true; again; again = saved.renewed {
		saved.renewed = false
		pods := saved.current
		s.mu.Unlock()
		err := s.save(saved.folder, pods, time.Now())
		s.mu.Lock()
		s.note(source, saved, err)
	}
	close(saved.writing)
	saved.writing, saved.late = nil, false
}

// reportLate records that a write lasts too long, if it is still in progress.
func (s *Saved) reportLate(source string, writing <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if saved := s.sources[source]; saved.writing == writing {
		saved.late = true
		s.note(source, saved, fmt.Errorf("the disk has not completed a write to %s within %v", saved.folder.dir, saveWithin))
	}
}

// note records and logs the result of a write. The caller holds mu.
func (s *Saved) note(source string, saved *savedSource, err error) {
	if err != nil && (saved.err == nil || err.Error() != saved.err.Error()) {
		s.cfg.Logger.Error("cannot save the desired pods; after a restart the node starts older ones", "source", source, "err", err)
	}
	saved.err = err
}

// Handled implements syncloop.PodSource. Inner does not learn of saved sets.
func (s *Saved) Handled(source string) {
	s.mu.Lock()
	saved := s.sources[source]
	read := saved == nil || saved.delivered
	s.mu.Unlock()
	if read {
		s.cfg.Inner.Handled(source)
	}
}

// Ready implements syncloop.SourceReadiness.
func (s *Saved) Ready() bool {
	inner, ok := s.cfg.Inner.(syncloop.SourceReadiness)
	return !ok || inner.Ready()
}

// SourceReady implements syncloop.SourceReadiness.
func (s *Saved) SourceReady(source string) bool {
	inner, ok := s.cfg.Inner.(syncloop.SourceReadiness)
	return !ok || inner.SourceReady(source)
}

// Age returns the age of the saved set that is in use, or false after a set of Inner was read, or
// without a saved set.
func (s *Saved) Age(source string) (age time.Duration, inUse bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	saved := s.sources[source]
	if saved == nil || saved.delivered || saved.stored == nil {
		return 0, false
	}
	return time.Since(saved.storedAt), true
}

// Err returns the errors of the sets that are not on the disk, or nil.
func (s *Saved) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, name := range s.cfg.Sources {
		if err := s.sources[name].err; err != nil {
			errs = append(errs, fmt.Errorf("podsource: saved pods of source %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// Run implements syncloop.EventSource: it announces the saved sets. When ctx is done, it waits for the
// writes in progress and returns an error that lists writes that last longer than 10 s.
func (s *Saved) Run(ctx context.Context, emit func(syncloop.Event)) error {
	for _, name := range s.cfg.Sources {
		emit(changed(name))
	}
	<-ctx.Done()
	return run.StillRunning("podsource: Saved", joinTime, s.writes.Wait(joinTime))
}
