package objects

import (
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// Hint says that something may have changed.
type Hint struct {
	// Path is the file, "" when it is unknown which.
	Path string
	// State is what is known of its content.
	State FileState
}

// FileState says how far the writing of a file has come.
type FileState uint8

// The states of a file.
const (
	// Changed: something about the file is different.
	Changed FileState = iota
	// Writing: somebody is writing to it; a Hint that it is Written follows.
	Writing
	// Written: it was closed after writing, or moved here. It is complete.
	Written
)

const (
	// quiet is how long ago a file must have been written when no Hint says that it is
	// complete.
	quiet = 50 * time.Millisecond
	// longestWrite is how long a file that is being written is left alone after the last
	// sign of it.
	longestWrite = 10 * time.Second
)

// hints collects what is known of files that are written.
type hints struct {
	prompt run.Signal
	mu     *sync.Mutex
	states map[string]hinted
}

type hinted struct {
	state FileState
	at    time.Time
}

func newHints() hints {
	return hints{prompt: run.NewSignal(), mu: new(sync.Mutex), states: map[string]hinted{}}
}

func (h *hints) add(hint Hint) {
	h.mu.Lock()
	if hint.State != Changed {
		h.states[hint.Path] = hinted{hint.State, time.Now()}
	}
	h.mu.Unlock()
	h.prompt.Wake()
}

// reset forgets everything: nobody watches any more.
func (h *hints) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.states)
}

// busy returns how long a file that has another content should be left alone.
func (h *hints) busy(path string, modTime, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch s := h.states[path]; s.state {
	case Written:
		return 0
	case Writing:
		return max(longestWrite-now.Sub(s.at), 0)
	}
	if age := now.Sub(modTime); age >= 0 && age < quiet {
		return quiet - age
	}
	return 0
}

// forget drops what is known of files that are not there.
func (h *hints) forget(there func(file string) bool, root string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path, s := range h.states {
		below, ok := strings.CutPrefix(filepath.ToSlash(path), filepath.ToSlash(root)+"/")
		if (!ok || !there(below)) && time.Since(s.at) > longestWrite {
			delete(h.states, path)
		}
	}
}
