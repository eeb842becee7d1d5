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

// Store keeps resources of pods in a file. What is in it must not be changed. It is safe
// for concurrent use.
type Store struct {
	path string // "": in memory

	mu      sync.Mutex
	entries map[types.UID]Resources
	version uint64 // of entries
	written uint64 // the version that the file has

	writing sync.Mutex // held while the file is written
}

// NewStore returns a store that lasts as long as the process.
func NewStore() *Store { return &Store{entries: map[types.UID]Resources{}} }

// Open reads a file; one that is missing is empty. A file that cannot be read, is damaged
// (ErrCorrupt) or of another version (ErrVersion) is an error that names it: it says what
// running containers were given, so it is for a person to drain the node and delete it.
func Open(path string) (*Store, error) {
	s := NewStore()
	s.path = path
	data, err := os.ReadFile(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("resources of pods: %w", err)
	}
	entries, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("resources of pods: %s: %w; drain the node and delete the file before the next start", path, err)
	}
	maps.Copy(s.entries, entries)
	return s, nil
}

// Get returns what is kept of a pod.
func (s *Store) Get(uid types.UID) (Resources, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.entries[uid]
	return r, ok
}

// Pods returns how many pods there are.
func (s *Store) Pods() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

// Set keeps something else of a pod. When it returns it is in the file; after an error
// what was kept before still is. Calls that come at the same time are one write; for one
// pod they come one after the other.
func (s *Store) Set(uid types.UID, r Resources) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("resources of pod %s: %w", uid, err)
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
		return fmt.Errorf("resources of pod %s: %w", uid, err)
	}
	return nil
}

// hold keeps something of a pod in memory, for the next write.
func (s *Store) hold(uid types.UID, r Resources) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, had := s.entries[uid]; had && before.Equal(r) {
		return
	}
	s.entries[uid] = r
	s.version++
}

// flush has in the file what is held by now. After an error it is still held.
func (s *Store) flush() error {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	return s.write(version, func() {})
}

// Remove forgets a pod. The file follows with the next write: a pod too many in it does no
// harm.
func (s *Store) Remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, uid)
}

// Retain forgets the pods for which wanted says no, like Remove.
func (s *Store) Retain(wanted func(types.UID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.entries, func(uid types.UID, _ Resources) bool { return !wanted(uid) })
}

// write has at least this version in the file. If it cannot, undo takes the change back
// before anybody else writes it.
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

// has tells whether the file has a version.
func (s *Store) has(version uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written >= version
}
