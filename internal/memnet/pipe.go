package memnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

type pipe struct {
	size int

	mu           sync.Mutex
	changed      sync.Cond    // of mu: a field below has changed
	data         bytes.Buffer // at most size
	reading      deadline
	writing      deadline
	readerClosed bool
	writerClosed bool
}

type deadline struct {
	passed bool
	timer  *time.Timer
}

func newPipe(size int) *pipe {
	p := &pipe{size: size}
	p.changed.L = &p.mu
	return p
}

func (p *pipe) read(to []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readerClosed:
			return 0, net.ErrClosed
		case p.reading.passed:
			return 0, os.ErrDeadlineExceeded
		case len(to) == 0:
			return 0, nil
		case p.data.Len() > 0:
			p.changed.Broadcast()
			return p.data.Read(to)
		case p.writerClosed:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

func (p *pipe) write(from []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for written := 0; ; {
		switch {
		case p.writerClosed:
			return written, net.ErrClosed
		case p.writing.passed:
			return written, os.ErrDeadlineExceeded
		case p.readerClosed:
			return written, syscall.EPIPE
		case written == len(from):
			return written, nil
		}
		if n := min(p.size-p.data.Len(), len(from)-written); n > 0 {
			p.data.Write(from[written : written+n])
			written += n
			p.changed.Broadcast()
			continue
		}
		p.changed.Wait()
	}
}

// closeReader drops the unread data.
func (p *pipe) closeReader() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readerClosed, p.data = true, bytes.Buffer{}
	p.reading.stop()
	p.changed.Broadcast()
}

func (p *pipe) closeWriter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writerClosed = true
	p.writing.stop()
	p.changed.Broadcast()
}

// setDeadline sets one of p's deadlines; zero removes it. A deadline in the past needs no timer.
func (p *pipe) setDeadline(d *deadline, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.stop()
	left := time.Until(t)
	d.passed = !t.IsZero() && left <= 0
	if !t.IsZero() && left > 0 {
		d.timer = p.after(left, d)
	}
	p.changed.Broadcast()
}

// after sets d.passed at the deadline, unless d was set again. The caller holds mu.
func (p *pipe) after(left time.Duration, d *deadline) *time.Timer {
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if d.timer == timer {
			d.passed = true
			p.changed.Broadcast()
		}
	})
	return timer
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// opError wraps an error like package net. io.EOF stays as it is.
func opError(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: addr{}.Network(), Addr: addr{}, Err: err}
}
