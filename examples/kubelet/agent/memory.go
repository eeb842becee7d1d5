package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/checkpoint"
)

// memory keeps on the disk what was last said of each pod, for the agent that comes
// after a crash. What a sync has found is on the disk before that sync changes
// anything (save); what changes at other times, such as the outcome of a probe, is
// written by Run, a moment later.
//
// A static pod that its manifest brings back has the UID that it had before and is
// another pod. So a pod is forgotten from the moment when it is stopped because
// nothing names it any more, and not only when it is gone.
type memory struct {
	log     *slog.Logger
	limiter *cri.LogLimiter
	store   *checkpoint.Store
	// status and probes are what is known of a pod now.
	status func(types.UID) *v1.PodStatus
	probes func(types.UID) []probe.Stored

	mu     sync.Mutex
	lives  map[types.UID]life
	unsaid map[types.UID]bool // changed since they were saved
	woken  chan struct{}      // capacity 1
}

// life is how a pod stands to the memory.
type life int8

const (
	unseen     life = iota // by this agent
	remembered             // what was known of it was read, what is new is kept
	forgotten              // it is on its way out
)

// rewrite is when what could not be written is tried again.
const rewrite = 10 * time.Second

func newMemory(log *slog.Logger, f folders) (*memory, error) {
	store, err := checkpoint.New(checkpoint.Config{File: f.status})
	if err != nil {
		return nil, err
	}
	return &memory{
		log: log, limiter: cri.NewLogLimiter(time.Minute), store: store,
		lives: map[types.UID]life{}, unsaid: map[types.UID]bool{}, woken: make(chan struct{}, 1),
	}, nil
}

func (m *memory) life(uid types.UID) life {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lives[uid]
}

func (m *memory) setLife(uid types.UID, l life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lives[uid] = l
}

// recall begins to keep what is known of a pod, and returns what an earlier agent
// has kept, nil if there is nothing that can be used.
func (m *memory) recall(uid types.UID) *checkpoint.Record {
	record, err := m.store.Load(uid)
	m.setLife(uid, remembered)
	switch {
	case err == nil:
		return &record
	case !errors.Is(err, fs.ErrNotExist):
		m.log.Error("what was known of a pod before the agent's start is lost", "uid", uid, "err", err)
	}
	return nil
}

// forget removes what is kept of a pod, and keeps nothing more of it.
func (m *memory) forget(uid types.UID) error {
	m.setLife(uid, forgotten)
	return m.store.Remove(uid)
}

// drop lets a pod be unseen again.
func (m *memory) drop(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.lives, uid)
	delete(m.unsaid, uid)
}

// keep drops all pods but those that are wanted.
func (m *memory) keep(wanted func(types.UID) bool) {
	m.mu.Lock()
	uids := slices.Collect(maps.Keys(m.lives))
	m.mu.Unlock()
	for _, uid := range uids {
		if !wanted(uid) {
			m.drop(uid)
		}
	}
}

// save writes what is known of a pod, if it is another thing than what was written
// before. A disk that is full stops no pod: what cannot be written is logged and
// tried again later.
func (m *memory) save(uid types.UID) {
	if !m.write(uid) {
		m.changed(uid)
	}
}

func (m *memory) write(uid types.UID) bool {
	m.mu.Lock()
	delete(m.unsaid, uid)
	m.mu.Unlock()
	err := m.store.SaveNewest(uid, func() (checkpoint.Record, bool) {
		s := m.status(uid)
		if s == nil || m.life(uid) != remembered {
			return checkpoint.Record{}, false
		}
		return checkpoint.Record{Status: *s, Probes: m.probes(uid)}, true
	})
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return true // a pod without a folder has nothing that could be lost
	}
	if m.limiter.Allow(time.Now(), string(uid), err.Error()) {
		m.log.Warn("cannot keep what is known of a pod; a crash of the agent would lose it", "uid", uid, "err", err)
	}
	return false
}

// changed has a pod saved soon. It never blocks.
func (m *memory) changed(uid types.UID) {
	m.mu.Lock()
	m.unsaid[uid] = true
	m.mu.Unlock()
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

// Run saves what has changed until ctx ends, and then once more.
func (m *memory) Run(ctx context.Context) error {
	var again <-chan time.Time
	for ctx.Err() == nil {
		select {
		case <-m.woken:
		case <-again:
		case <-ctx.Done():
		}
		again = nil
		if m.writeUnsaid() {
			continue
		}
		again = time.After(rewrite)
	}
	return nil
}

// writeUnsaid tells whether all could be written.
func (m *memory) writeUnsaid() bool {
	m.mu.Lock()
	uids := slices.Sorted(maps.Keys(m.unsaid))
	m.mu.Unlock()
	all := true
	for _, uid := range uids {
		if m.write(uid) {
			continue
		}
		all = false
		m.mu.Lock()
		m.unsaid[uid] = true
		m.mu.Unlock()
	}
	return all
}
