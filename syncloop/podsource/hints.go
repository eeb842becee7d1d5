package podsource

import (
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// hints collects what a watch says between two looks at the files.
type hints struct {
	// prompt is given when it is time for a look.
	prompt run.Signal

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

func (h *hints) init() {
	h.prompt = run.NewSignal()
	h.writing, h.written, h.deleted = map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
	h.named = map[string]bool{}
}

// suspects returns the files that may have changed since it was asked last; all
// tells that every file may have.
func (h *hints) suspects() (named map[string]bool, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	named, all = h.named, h.unnamed
	h.named, h.unnamed = map[string]bool{}, false
	return named, all
}

// add takes one hint. A file being written prompts nothing: another hint comes
// when it is complete.
func (h *hints) add(hint Hint) {
	h.note(hint)
	if hint.State != Writing {
		h.prompt.Wake()
	}
}

func (h *hints) note(hint Hint) {
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

// reset forgets what was being written: nobody watches any more.
func (h *hints) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.writing)
}

// busy returns how long to leave a file alone, 0 when it is complete.
func (h *hints) busy(path string, modTime, now time.Time) time.Duration {
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

// deletions tells whether files were deleted since the last look, and are gone still.
func (h *hints) deletions() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path := range h.named {
		if _, ok := h.deleted[path]; ok {
			return true
		}
	}
	return false
}

// wasDeleted tells whether a file that is missing was deleted, as opposed to
// moved out of the way for a moment.
func (h *hints) wasDeleted(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, deleted := h.deleted[path]
	return deleted
}

// forget drops what is too old to matter.
func (h *hints) forget(now time.Time) {
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
