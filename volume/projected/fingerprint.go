package projected

import (
	"hash/maphash"
	"sync"
	"time"
)

// fingerprints records the written content per folder, so that an unchanged payload costs only
// the status of two folders.
type fingerprints struct {
	seed    maphash.Seed
	mu      *sync.Mutex
	written map[string]written
}

// written is the state of a volume's folder after the last write.
type written struct {
	sum    uint64
	folder folderStamp
	// reliable is true if a later change must change the stamp; clocks of file systems are coarse.
	reliable bool
}

// folderStamp changes if the volume's folder or its version is replaced, or if their entries
// change.
type folderStamp struct{ root, version stamp }

type stamp struct {
	dev, ino          uint64
	modified, changed int64 // ns since 1970
}

// maxClockLag bounds the lag of a file system's clock.
const maxClockLag = 50 * time.Millisecond

func newFingerprints() fingerprints {
	return fingerprints{seed: maphash.MakeSeed(), mu: new(sync.Mutex), written: map[string]written{}}
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

// matches reports whether the folder certainly has the content with this sum.
func (m *fingerprints) matches(dir string, sum uint64) bool {
	m.mu.Lock()
	last, ok := m.written[dir]
	m.mu.Unlock()
	if !ok || !last.reliable || last.sum != sum {
		return false
	}
	current, ok := stampFolder(dir)
	return ok && current == last.folder
}

func (m *fingerprints) remember(dir string, sum uint64, now time.Time) {
	current, ok := stampFolder(dir)
	if !ok {
		return
	}
	newest := max(current.root.modified, current.root.changed, current.version.modified, current.version.changed)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written[dir] = written{sum, current, now.UnixNano()-newest > int64(maxClockLag)}
}

func (m *fingerprints) forget(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.written, dir)
}
