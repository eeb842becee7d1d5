package fs

import (
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// Hint says that something may have changed.
type Hint struct {
	// Path is the file, "" when it is unknown which.
	Path string
	// State is what is known of its content.
	State State
}

// State says how far the writing of a file has come.
type State uint8

// The states of a file.
const (
	// Changed: something about the file is different.
	Changed State = iota
	// Writing: somebody is writing to it; a Hint that it is Written follows.
	Writing
	// Written: it was closed after writing, or moved here. It is complete.
	Written
	// Deleted: somebody deleted it. A file that was moved away is not: editors do that
	// to keep the old version while they write the new one.
	Deleted
)

const (
	// quiet is how long ago a file must have been written, when no Hint says that it is
	// complete.
	quiet = 50 * time.Millisecond
	// longestWrite is how long a file that is being written is left alone after the last
	// sign of it.
	longestWrite = 10 * time.Second
)

// Hints collects what a watch says between two looks at the files. Use NewHints. It is
// safe for concurrent use.
type Hints struct {
	// Prompt is given when it is time for a look.
	Prompt run.Signal

	mu sync.Mutex
	// writing is when each file was last seen being written; written is when
	// each was last known to be complete; deleted when it was deleted, if it has
	// not come back since.
	writing, written, deleted map[string]time.Time
	// named are the files of which something was said since the last look;
	// unnamed tells that something was said of nobody knows which.
	named   map[string]bool
	unnamed bool
}

// NewHints returns Hints that know nothing.
func NewHints() *Hints {
	return &Hints{
		Prompt:  run.NewSignal(),
		writing: map[string]time.Time{}, written: map[string]time.Time{}, deleted: map[string]time.Time{},
		named: map[string]bool{},
	}
}

// Suspects returns the files that may have changed since it was asked last; all
// tells that every file may have.
func (h *Hints) Suspects() (named map[string]bool, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	named, all = h.named, h.unnamed
	h.named, h.unnamed = map[string]bool{}, false
	return named, all
}

// Add takes one hint. A file being written prompts nothing: another hint comes
// when it is complete.
func (h *Hints) Add(hint Hint) {
	h.Note(hint)
	if hint.State != Writing {
		h.Prompt.Wake()
	}
}

// Note takes one hint and prompts nothing.
func (h *Hints) Note(hint Hint) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.deleted, hint.Path)
	if hint.Path == "" {
		h.unnamed = true
	} else {
		h.named[hint.Path] = true
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
			// Something was missed, perhaps the end of a writing.
			clear(h.writing)
		}
	}
}

// Reset forgets what was being written: nobody watches any more.
func (h *Hints) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.writing)
}

// Busy returns how long to leave a file alone, 0 when it is complete.
func (h *Hints) Busy(path string, modTime, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.writing[path]; ok && now.Sub(at) < longestWrite {
		return longestWrite - now.Sub(at)
	}
	if at, ok := h.written[path]; ok && !modTime.After(at) {
		return 0
	}
	// A time that lies in the future tells nothing.
	if age := now.Sub(modTime); age >= 0 && age < quiet {
		return quiet - age
	}
	return 0
}

// Deletions tells whether files were deleted since the last look, and are gone still.
func (h *Hints) Deletions() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path := range h.named {
		if _, ok := h.deleted[path]; ok {
			return true
		}
	}
	return false
}

// WasDeleted tells whether a file that is missing was deleted, as opposed to
// moved out of the way for a moment.
func (h *Hints) WasDeleted(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, deleted := h.deleted[path]
	return deleted
}

// Forget drops what is too old to matter.
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
