package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// readSize is how much is read at a time. A longer line comes in pieces.
const readSize = 64 << 10

// buffers are what reading takes; waiting takes none.
type buffers struct{ in, out []byte }

// reading is one call of Read.
type reading struct {
	reader    *Reader
	path      string
	container string
	segment   *segment
	splitter  splitter
}

// tail goes to the beginning of the last lines.
func (rd *reading) tail(lines *int64) error {
	if lines == nil {
		return nil
	}
	_, size, err := identify(rd.segment.file)
	if err != nil {
		return err
	}
	rd.segment.pos, err = tailStart(rd.segment.file, size, *lines)
	return err
}

// pump hands on all that the file holds, up to the last newline; with last also
// what follows that. It returns early, without an error, when a limit is reached.
func (rd *reading) pump(ctx context.Context, last bool) (err error) {
	p := rd.splitter.to
	b := rd.reader.buffers.Get().(*buffers)
	b.in = slices.Grow(b.in[:0], readSize)[:readSize]
	p.out = b.out[:0]
	defer func() {
		if err == nil {
			err = p.flush()
		}
		b.out, p.out = p.out[:0], nil
		if cap(b.in)+cap(b.out) <= 4*readSize {
			rd.reader.buffers.Put(b)
		}
	}()
	have := 0
	for !p.full() {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, readErr := rd.segment.Read(b.in[have:])
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return readErr
		}
		have += n
		used, err := rd.splitter.feed(b.in[:have])
		if err != nil {
			return err
		}
		have = copy(b.in, b.in[used:have])
		if readErr != nil {
			return rd.atEnd(b.in[:have], last)
		}
		if have == len(b.in) {
			if err := rd.splitter.overlong(b.in); err != nil {
				return err
			}
			have = 0
		}
	}
	return nil
}

// atEnd deals with what follows the last newline.
func (rd *reading) atEnd(rest []byte, last bool) error {
	if last {
		return rd.splitter.rest(rest)
	}
	rd.segment.rewind(len(rest))
	return nil
}

// next turns to another file.
func (rd *reading) next(s *segment) error {
	err := rd.segment.close()
	rd.segment = s
	rd.splitter.reset()
	if err != nil {
		return fmt.Errorf("closing what was rotated: %w", err)
	}
	return nil
}
