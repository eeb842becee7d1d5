package projected

import (
	"hash/maphash"
	"sync"
	"time"
)

// fingerprints records the written content per folder, so that an unchanged payload costs only
// the status of two folders.
type fingerprints struct {
	seed  maphash.Seed
	mu    *sync.Mutex
	known map[string]written
}

// written is the state of a volume's folder after the last write.
type written struct {
	sum    uint64
	folder folderStamp
	// sure is true if a later change must change the stamp; clocks of file systems are coarse.
	sure bool
}

// folderStamp changes if the volume's folder or its version is replaced, or if their entries
// change.
type folderStamp struct{ root, version stamp }

type stamp struct {
	dev, ino          uint64
	modified, changed int64 // ns since 1970
}

// coarse bounds the lag of a file system's clock.
const coarse = 50 * time.Millisecond

func newFingerprints() fingerprints {
	return fingerprints{seed: maphash.MakeSeed(), mu: new(sync.Mutex), known: map[string]written{}}
}

// sum returns a hash of a payload and of the folders created in it.
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
		sum += h.Sum64() // independent of the order
	}
	for name, f := range p {
		one('f', name, f.Data)
	}
	for _, at := range inside {
		one('i', at, nil)
	}
	return sum
}

// holds reports whether the folder certainly has the content with this sum.
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
