package fs

import (
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// Hint reports a possible change of a file.
type Hint struct {
	// Path is the file, or "" if it is unknown.
	Path string
	// State is the state of its content.
	State State
}

// State is the progress of writing a file.
type State uint8

// The states of a file.
const (
	// Changed: the file has changed.
	Changed State = iota
	// Writing: the file is being written; a Hint with Written follows.
	Writing
	// Written: the file was closed after writing, or moved here. It is complete.
	Written
	// Deleted: the file was deleted. A file that was moved away does not count: editors keep the
	// old version like that while they write the new one.
	Deleted
)

const (
	// settleTime is the smallest age of a complete file without a Hint that it is Written.
	settleTime = 50 * time.Millisecond
	// longestWrite is the time after the last hint of writing until which a file counts as being
	// written.
	longestWrite = 10 * time.Second
)

// Hints collects the hints of a watch between two scans of the files. Use NewHints. It is safe
// for concurrent use.
type Hints struct {
	// Prompt is sent when a scan is due.
	Prompt run.Signal

	mu sync.Mutex
	// writing has the time of the last hint that a file is being written, written the time of
	// the last hint that it is complete, and deleted the time of its deletion without a return.
	writing, written, deleted map[string]time.Time
	// returned are the files that were deleted and written again since the last call of Returned.
	returned map[string]bool
	// suspects are the files with hints since the last scan. allSuspect is true if a hint had no path.
	suspects   map[string]bool
	allSuspect bool
}

// NewHints returns Hints without any hint.
func NewHints() *Hints {
	return &Hints{
		Prompt:  run.NewSignal(),
		writing: map[string]time.Time{}, written: map[string]time.Time{}, deleted: map[string]time.Time{}, returned: map[string]bool{},
		suspects: map[string]bool{},
	}
}

// Suspects returns the files that may have changed since its last call. all is true if every
// file may have changed.
func (h *Hints) Suspects() (suspects map[string]bool, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	suspects, all = h.suspects, h.allSuspect
	h.suspects, h.allSuspect = map[string]bool{}, false
	return suspects, all
}

// Add adds one hint. A file that is being written causes no prompt: another hint follows when it
// is complete.
func (h *Hints) Add(hint Hint) {
	h.Note(hint)
	if hint.State != Writing {
		h.Prompt.Wake()
	}
}

// Note adds one hint without a prompt.
func (h *Hints) Note(hint Hint) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, gone := h.deleted[hint.Path]; gone && hint.State != Deleted {
		h.returned[hint.Path] = true
	}
	delete(h.deleted, hint.Path)
	if hint.Path == "" {
		h.allSuspect = true
	} else {
		h.suspects[hint.Path] = true
	}
	switch hint.State {
	case Deleted:
		h.deleted[hint.Path] = now
	case Writing:
		h.writing[hint.Path] = now
	case Written:
		delete(h.writing, hint.Path)
		h.written[hint.Path] = now
	default:
		if hint.Path == "" {
			// Hints were lost, perhaps the end of a write.
			clear(h.writing)
		}
	}
}

// Reset forgets the files that are being written, because the watch has ended.
func (h *Hints) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.writing)
}

// Busy returns the time until a file may be read, 0 if it is complete.
func (h *Hints) Busy(path string, modTime, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.writing[path]; ok && now.Sub(at) < longestWrite {
		return longestWrite - now.Sub(at)
	}
	if at, ok := h.written[path]; ok && !modTime.After(at) {
		return 0
	}
	// A time in the future is meaningless.
	if age := now.Sub(modTime); age >= 0 && age < settleTime {
		return settleTime - age
	}
	return 0
}

// Deletions reports whether files were deleted since the last scan and have not returned.
func (h *Hints) Deletions() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path := range h.suspects {
		if _, ok := h.deleted[path]; ok {
			return true
		}
	}
	return false
}

// WasDeleted reports whether a missing file was deleted, not just moved away for a moment.
func (h *Hints) WasDeleted(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, deleted := h.deleted[path]
	return deleted
}

// Found records that a scan which began at a time has found a file. If the file was deleted before,
// it has returned, also if the hint of its return comes later.
func (h *Hints) Found(path string, began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.deleted[path]; ok && at.Before(began) {
		delete(h.deleted, path)
		h.returned[path] = true
	}
}

// Returned returns the files that were deleted and written again since its last call.
func (h *Hints) Returned() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.returned
	h.returned = map[string]bool{}
	return out
}

// Forget drops old hints.
func (h *Hints) Forget(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, seen := range []map[string]time.Time{h.writing, h.written, h.deleted} {
		for path, at := range seen {
			if now.Sub(at) >= longestWrite {
				delete(seen, path)
			}
		}
	}
}
