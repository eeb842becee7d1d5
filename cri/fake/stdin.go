package fake

import (
	"context"
	"io"
	"sync"
)

// stdinPipe is the standard input of a program: a pipe with the capacity of a real
// one, so that who writes a little need not wait for a reader.
type stdinPipe struct {
	mu      sync.Mutex
	data    []byte
	changed chan struct{} // closed and replaced whenever something changes
	ended   bool          // nothing more comes
	over    bool          // nobody reads any more
}

func newStdinPipe() *stdinPipe { return &stdinPipe{changed: make(chan struct{})} }

// notify wakes everybody. i.mu is held.
func (i *stdinPipe) notify() {
	close(i.changed)
	i.changed = make(chan struct{})
}

// Read is what the program calls. It returns io.EOF at the end of the input and
// when the program is over.
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

// write waits for room, as long as ctx lasts. It fails when the input has ended.
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

// end tells that nothing more comes; what was written can still be read.
func (i *stdinPipe) end() { i.set(&i.ended) }

// close ends the input for a program that is over, or is to be.
func (i *stdinPipe) close() { i.set(&i.over) }

func (i *stdinPipe) set(flag *bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !*flag {
		*flag = true
		i.notify()
	}
}
