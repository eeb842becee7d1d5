package fs

import (
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podwright/podwright/internal/run"
)

const (
	// AnswerTime bounds the wait for reads.
	AnswerTime = 2 * time.Second
	// Silence is the problem of a file or folder whose read has not returned in time.
	Silence = "cannot be read: the read blocks"
	// quick is the time within which reads that do not block return.
	quick = 50 * time.Millisecond
	// readBatch is the size of a batch of reads.
	readBatch = 32
	// perPath bounds the blocked reads of one path, because each has a thread. After a link was
	// replaced, its new target is read beside the blocked read of the old one.
	perPath = 4
)

// Key identifies a file or folder whose read may block.
type Key struct {
	Path string
	// link identifies a symbolic link, which may be replaced.
	link ID
	made int64
}

// KeyOf returns the key of an entry of a folder. A link that was replaced has another key.
func KeyOf(path string, entry fs.DirEntry) Key {
	k := Key{Path: path}
	if entry.Type()&fs.ModeSymlink == 0 {
		return k
	}
	if info, err := entry.Info(); err == nil {
		k.link, k.made = IDOf(info), info.ModTime().UnixNano()
	}
	return k
}

// Reads runs reads that may never return, for instance of a link to an unavailable file server.
// Each blocked read has its own goroutine, and each key has at most one. The zero value is ready
// for use. It is not safe for concurrent use.
type Reads[T any] struct {
	late map[Key]lateRead[T]
}

// lateRead is a read that did not return in time: the i-th of a batch.
type lateRead[T any] struct {
	batch *batch[T]
	i     int
}

// batch is a set of reads that are started together.
type batch[T any] struct {
	done chan struct{} // closed when all have returned

	mu      sync.Mutex
	open    int
	results []T
	has     []bool
}

func (b *batch[T]) put(i int, result T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results[i], b.has[i] = result, true
	if b.open--; b.open == 0 {
		close(b.done)
	}
}

// run starts the reads and waits for them. One goroutine is enough for reads that do not block.
// Each further goroutine continues with the reads behind a blocked one.
func (b *batch[T]) run(started []int, read func(i int) T) {
	var next atomic.Int64
	work := func() {
		for n := next.Add(1); n <= int64(len(started)); n = next.Add(1) {
			i := started[n-1]
			b.put(i, read(i))
		}
	}
	go work()
	if run.Wait(b.done, quick) {
		return
	}
	for range started {
		go work()
	}
	run.Wait(b.done, AnswerTime-quick)
}

// get returns a result, or nil for a read that has not returned.
func (b *batch[T]) get(i int) *T {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.has[i] {
		return nil
	}
	return &b.results[i]
}

// All calls read for each key and returns the results in order. The result of a read that has
// not returned within AnswerTime is nil. Such a read continues: a later All returns its result,
// or nil at once, and starts no second read for its key.
func (r *Reads[T]) All(keys []Key, read func(i int) T) []*T {
	results := make([]*T, 0, len(keys))
	for begin := 0; begin < len(keys); begin += readBatch {
		part := keys[begin:min(begin+readBatch, len(keys))]
		results = r.readAll(results, part, func(i int) T { return read(begin + i) })
	}
	r.forget(keys)
	return results
}

func (r *Reads[T]) readAll(results []*T, keys []Key, read func(i int) T) []*T {
	b := &batch[T]{done: make(chan struct{}), results: make([]T, len(keys)), has: make([]bool, len(keys))}
	started := make([]int, 0, len(keys))
	for i, k := range keys {
		if _, late := r.late[k]; !late && r.blocked(k.Path) < perPath {
			started = append(started, i)
		}
	}
	if b.open = len(started); b.open > 0 {
		b.run(started, read)
	}
	for _, i := range started {
		if b.get(i) == nil {
			if r.late == nil {
				r.late = map[Key]lateRead[T]{}
			}
			r.late[keys[i]] = lateRead[T]{b, i}
		}
	}
	for i, k := range keys {
		result := b.get(i)
		if late, ok := r.late[k]; ok {
			if result = late.batch.get(late.i); result != nil {
				delete(r.late, k)
			}
		}
		results = append(results, result)
	}
	return results
}

// forget drops finished late reads of other keys.
func (r *Reads[T]) forget(keys []Key) {
	for k, late := range r.late {
		if late.batch.get(late.i) != nil && !slices.Contains(keys, k) {
			delete(r.late, k)
		}
	}
}

// blocked returns the number of late reads of a path.
func (r *Reads[T]) blocked(path string) (n int) {
	for k := range r.late {
		if k.Path == path {
			n++
		}
	}
	return n
}

// Wait blocks until all reads have returned, at most for limit. It returns the paths of the
// running reads, sorted.
func (r *Reads[T]) Wait(limit time.Duration) (running []string) {
	deadline := time.Now().Add(limit)
	for k, late := range r.late {
		run.Wait(late.batch.done, time.Until(deadline))
		if late.batch.get(late.i) == nil {
			running = append(running, k.Path)
		}
	}
	slices.Sort(running)
	return running
}
