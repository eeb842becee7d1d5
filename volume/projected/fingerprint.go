package projected

import (
	"hash/maphash"
	"sync"
	"time"
)

// fingerprints knows what was written where, so that a payload that has not changed costs no
// more than a look at two folders.
type fingerprints struct {
	seed  maphash.Seed
	mu    *sync.Mutex
	known map[string]written
}

// written is what a volume's folder held when it was last looked at in full.
type written struct {
	sum    uint64
	folder folderStamp
	// sure tells that a later change would be seen in the stamp: clocks of file systems
	// are coarse.
	sure bool
}

// folderStamp tells whether a volume's folder and the version in it are the same, and
// have the same entries, as before.
type folderStamp struct{ root, version stamp }

type stamp struct {
	dev, ino          uint64
	modified, changed int64 // ns since 1970
}

// coarse is by how much the clock of a file system may lag.
const coarse = 50 * time.Millisecond

func newFingerprints() fingerprints {
	return fingerprints{seed: maphash.MakeSeed(), mu: new(sync.Mutex), known: map[string]written{}}
}

// sum stands for the content of a payload and the folders made in it.
func (m *fingerprints) sum(p payload, inside []string) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	sum := uint64(len(p))
	one := func(kind byte, name string, data []byte) {
		h.Reset()
		_ = h.WriteByte(kind) // never fails
		_, _ = h.WriteString(name)
		_ = h.WriteByte(0)
		_, _ = h.Write(data)
		sum += h.Sum64() // in any order
	}
	for name, f := range p {
		one('f', name, f.Data)
	}
	for _, at := range inside {
		one('i', at, nil)
	}
	return sum
}

// holds tells whether the folder is known to hold what has that sum.
func (m *fingerprints) holds(dir string, sum uint64) bool {
	m.mu.Lock()
	known, ok := m.known[dir]
	m.mu.Unlock()
	if !ok || !known.sure || known.sum != sum {
		return false
	}
	now, ok := look(dir)
	return ok && now == known.folder
}

func (m *fingerprints) remember(dir string, sum uint64, now time.Time) {
	seen, ok := look(dir)
	if !ok {
		return
	}
	youngest := max(seen.root.modified, seen.root.changed, seen.version.modified, seen.version.changed)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[dir] = written{sum, seen, now.UnixNano()-youngest > int64(coarse)}
}

func (m *fingerprints) forget(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, dir)
}
