package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	blockSize = 16 << 10
	// minScan is the minimum that Tail scans backwards, in bytes, before it gives up finding
	// maxBytes of content.
	minScan = 1 << 20
)

// Tail returns the container's output in the last maxLines physical lines of a log file, at most
// its last maxBytes bytes. It returns content only and joins the parts of a partial line per
// stream. An unterminated last line is included in addition to maxLines. Lines in an unknown
// format are skipped; a JSON line of docker is an error that wraps ErrDockerLine. For a missing
// file the error wraps fs.ErrNotExist.
//
// Zero or a negative value means no limit. With maxBytes, Tail reads at most the larger of 1 MiB
// and 8*maxBytes. It ends between two reads when ctx is done, and never waits for a pipe.
func Tail(ctx context.Context, path string, maxLines int, maxBytes int64) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("log tail: %w", err)
	}
	defer file.Close()
	_, size, err := identify(file)
	if err != nil {
		return "", fmt.Errorf("log tail: %s: %w", path, err)
	}
	lines, err := lastLines(readerAt{ctx, file}, size, maxLines, maxBytes)
	if err != nil {
		return "", fmt.Errorf("log tail: reading %s: %w", path, err)
	}
	return string(cutFront(join(lines), maxBytes)), nil
}

// readerAt fails with the error of its context once that is done.
type readerAt struct {
	ctx context.Context
	io.ReaderAt
}

func (r readerAt) ReadAt(p []byte, at int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReaderAt.ReadAt(p, at)
}

// lastLines parses the lines at the end of a file of the given size and returns them oldest first.
// It reads backwards block by block until it has enough.
func lastLines(r io.ReaderAt, size int64, maxLines int, maxBytes int64) ([]Line, error) {
	t := tail{maxLines: maxLines, maxBytes: maxBytes}
	stop := int64(0)
	if maxBytes > 0 {
		// Divided, not multiplied: a huge maxBytes must not overflow.
		if scan := max(minScan, min(maxBytes, size/8+1)*8); size > scan {
			stop = size - scan
		}
	}
	for end := size; end > stop && !t.done(); {
		start := max(stop, end-blockSize)
		block := make([]byte, end-start)
		if n, err := r.ReadAt(block, start); n < len(block) {
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			// The file shrank meanwhile.
			block = block[:n]
		}
		t.prepend(block)
		end = start
	}
	if stop == 0 && !t.done() {
		t.take(t.whole())
	}
	if t.err != nil {
		return nil, t.err
	}
	slices.Reverse(t.lines)
	return t.lines, nil
}

type tail struct {
	maxLines int
	maxBytes int64

	lines []Line // newest first
	// pieces are the blocks of a line whose beginning was not reached yet, last one first.
	pieces  [][]byte
	counted int
	bytes   int64
	started bool  // a newline was seen
	err     error // of a refused line
}

func (t *tail) done() bool {
	return t.err != nil || t.maxLines > 0 && t.counted >= t.maxLines || t.maxBytes > 0 && t.bytes >= t.maxBytes
}

// prepend processes the block before all earlier blocks, backwards.
func (t *tail) prepend(block []byte) {
	for !t.done() {
		newline := bytes.LastIndexByte(block, '\n')
		if newline < 0 {
			break
		}
		t.pieces = append(t.pieces, block[newline+1:])
		block = block[:newline]
		t.take(t.whole())
		t.started = true
	}
	t.pieces = append(t.pieces, block)
}

func (t *tail) whole() []byte {
	slices.Reverse(t.pieces)
	line := bytes.Join(t.pieces, nil)
	t.pieces = nil
	return line
}

// take adds a whole line. The text after the file's last newline does not count as a line.
func (t *tail) take(raw []byte) {
	if t.started {
		t.counted++
	}
	line, ok, err := parse(raw)
	if !ok {
		t.err = err
		return
	}
	t.lines = append(t.lines, line)
	t.bytes += int64(len(line.Content))
	if !line.Partial {
		t.bytes++
	}
}

// join joins lines, oldest first. Partial lines of both streams may interleave, so it buffers each
// until it is complete.
func join(lines []Line) []byte {
	var out []byte
	open := map[Stream][]byte{}
	for _, line := range lines {
		open[line.Stream] = append(open[line.Stream], line.Content...)
		if !line.Partial {
			out = append(append(out, open[line.Stream]...), '\n')
			open[line.Stream] = nil
		}
	}
	return append(append(out, open[Stdout]...), open[Stderr]...)
}

// cutFront returns the last n bytes, without the rest of a character that was cut.
func cutFront(b []byte, n int64) []byte {
	if n <= 0 || int64(len(b)) <= n {
		return b
	}
	b = b[int64(len(b))-n:]
	for i := 0; i < utf8.UTFMax-1 && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
		b = b[1:]
	}
	return b
}

// tailBlock is the size of the first block read from the end, in bytes. Later blocks double in
// size up to blockSize.
const tailBlock = 1 << 10

// tailStart returns the position of the last n lines of a file of the given size. Text after the
// last newline is included in addition.
func tailStart(r io.ReaderAt, size, n int64) (int64, error) {
	buf := make([]byte, blockSize)
	for end, length := size, int64(tailBlock); end > 0; {
		start := max(0, end-length)
		block := buf[:end-start]
		if got, err := r.ReadAt(block, start); got < len(block) {
			if err != nil && !errors.Is(err, io.EOF) {
				return 0, err
			}
			block = block[:got] // the file has shrunk
		}
		for {
			at := bytes.LastIndexByte(block, '\n')
			if at < 0 {
				break
			}
			if n == 0 {
				return start + int64(at) + 1, nil
			}
			n--
			block = block[:at]
		}
		end, length = start, min(2*length, blockSize)
	}
	return 0, nil
}
