package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// readSize is the size of one read in bytes. A longer line is processed in pieces.
const readSize = 64 << 10

// buffers are used only while reading. A waiting follower has none.
type buffers struct{ in, out []byte }

type reading struct {
	reader    *Reader
	path      string
	container string
	segment   *segment
	splitter  splitter
}

func (rd *reading) tail(ctx context.Context, lines *int64) error {
	if lines == nil {
		return nil
	}
	_, size, err := identify(rd.segment.file)
	if err != nil {
		return err
	}
	rd.segment.pos, err = tailStart(readerAt{ctx, rd.segment.file}, size, *lines)
	return err
}

// pump processes the file up to its last newline, and with last also the rest. It returns early
// without an error when the output limit is reached.
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

// atEnd processes the bytes after the last newline, or rewinds to read them again later.
func (rd *reading) atEnd(rest []byte, last bool) error {
	if last {
		return rd.splitter.rest(rest)
	}
	rd.segment.rewind(len(rest))
	return nil
}

func (rd *reading) next(s *segment) error {
	err := rd.segment.close()
	rd.segment = s
	rd.splitter.reset()
	if err != nil {
		return fmt.Errorf("close the rotated log: %w", err)
	}
	return nil
}
