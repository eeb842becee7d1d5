package fake

import (
	"context"
	"io"
	"sync"
)

// stdinPipe is the standard input of a program: a pipe with the capacity of a real one, so that
// small writes do not block.
type stdinPipe struct {
	mu      sync.Mutex
	data    []byte
	changed chan struct{} // closed and replaced at each change
	ended   bool          // no further input
	over    bool          // no further reads
}

func newStdinPipe() *stdinPipe { return &stdinPipe{changed: make(chan struct{})} }

// notify wakes all waiters. The caller holds i.mu.
func (i *stdinPipe) notify() {
	close(i.changed)
	i.changed = make(chan struct{})
}

// Read is called by the program. It returns io.EOF at the end of the input and after the end of the
// program.
func (i *stdinPipe) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		i.mu.Lock()
		if len(i.data) > 0 && !i.over {
			n := copy(p, i.data)
			i.data = i.data[n:]
			i.notify()
			i.mu.Unlock()
			return n, nil
		}
		if i.ended || i.over {
			i.mu.Unlock()
			return 0, io.EOF
		}
		changed := i.changed
		i.mu.Unlock()
		<-changed
	}
}

// write waits for room until ctx is done. It fails after the end of the input.
func (i *stdinPipe) write(ctx context.Context, p []byte) error {
	for len(p) > 0 {
		i.mu.Lock()
		if i.ended || i.over {
			i.mu.Unlock()
			return io.ErrClosedPipe
		}
		n := min(len(p), pipeSize-len(i.data))
		if n > 0 {
			i.data = append(i.data, p[:n]...)
			p = p[n:]
			i.notify()
		}
		changed := i.changed
		i.mu.Unlock()
		if len(p) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// end ends the input; data in the pipe can still be read.
func (i *stdinPipe) end() { i.set(&i.ended) }

// close ends the input for a program that has ended or is being killed.
func (i *stdinPipe) close() { i.set(&i.over) }

func (i *stdinPipe) set(flag *bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !*flag {
		*flag = true
		i.notify()
	}
}
