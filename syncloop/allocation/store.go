package allocation

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
)

// Store keeps resources of pods in a file. The Resources that it receives and returns are shared
// and must not be changed. It is safe for concurrent use; only calls of Set for one pod must not
// overlap.
type Store struct {
	path string // "" for a store in memory

	mu      sync.Mutex
	entries map[types.UID]Resources
	version uint64 // of entries
	written uint64 // version in the file

	writing sync.Mutex // locked during a write of the file
}

// NewStore returns a store in memory.
func NewStore() *Store { return &Store{entries: map[types.UID]Resources{}} }

// Open reads the store in a file. A missing file is an empty store. It returns an error that names
// the file if the file is unreadable, damaged (ErrCorrupt) or of another version (ErrVersion). An
// operator must then drain the node before deleting the file, because running containers depend on
// its contents.
func Open(path string) (*Store, error) {
	s := NewStore()
	s.path = path
	data, err := os.ReadFile(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("allocation: read store: %w", err)
	}
	entries, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("allocation: store %s: %w; drain the node and delete the file before the next start", path, err)
	}
	maps.Copy(s.entries, entries)
	return s, nil
}

// Get returns the resources of a pod, or false if the Store has none.
func (s *Store) Get(uid types.UID) (Resources, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.entries[uid]
	return r, ok
}

// Pods returns the number of pods.
func (s *Store) Pods() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

// Set changes the resources of a pod. After it returns nil, the file has them. It returns an error
// for negative or overflowing amounts, or if the write fails; the previous resources are then kept.
// Concurrent calls share a write. Calls for one pod must not overlap.
func (s *Store) Set(uid types.UID, r Resources) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("allocation: pod %s: %w", uid, err)
	}
	s.mu.Lock()
	before, had := s.entries[uid]
	if had && before.Equal(r) {
		s.mu.Unlock()
		return nil
	}
	s.entries[uid] = r
	s.version++
	version := s.version
	s.mu.Unlock()
	err := s.write(version, func() {
		if had {
			s.entries[uid] = before
		} else {
			delete(s.entries, uid)
		}
	})
	if err != nil {
		return fmt.Errorf("allocation: pod %s: %w", uid, err)
	}
	return nil
}

// setUnsaved stores resources in memory, for the next write.
func (s *Store) setUnsaved(uid types.UID, r Resources) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, had := s.entries[uid]; had && before.Equal(r) {
		return
	}
	s.entries[uid] = r
	s.version++
}

// flush writes the current entries to the file. After an error they stay in memory.
func (s *Store) flush() error {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	return s.write(version, func() {})
}

// Remove drops a pod from memory. The next write drops it from the file; an extra pod in the file
// is harmless.
func (s *Store) Remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, uid)
}

// Retain drops the pods for which wanted returns false, like Remove.
func (s *Store) Retain(wanted func(types.UID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.entries, func(uid types.UID, _ Resources) bool { return !wanted(uid) })
}

// write writes the file unless it has at least this version. If that fails, undo reverts the
// change before another write.
func (s *Store) write(version uint64, undo func()) error {
	if s.path == "" || s.has(version) {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.has(version) {
		return nil
	}
	s.mu.Lock()
	entries, version := maps.Clone(s.entries), s.version
	s.mu.Unlock()
	data, err := encode(entries)
	if err == nil {
		err = fs.WriteAtomic(s.path, data, 0o600)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		undo()
		return err
	}
	s.written = version
	return nil
}

// has reports whether the file has at least this version.
func (s *Store) has(version uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written >= version
}
