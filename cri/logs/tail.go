package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"
)

const (
	blockSize = 16 << 10
	// minScan is how far back Tail looks at least before it gives up on finding
	// maxBytes of content.
	minScan = 1 << 20
)

// Tail returns what the container wrote in the last maxLines physical lines of a
// log file, at most the last maxBytes bytes of it: content only, the parts of a
// partial line joined, each stream for itself. A line without a newline at the
// end of the file comes on top of maxLines. Lines in no
// known format are skipped; a JSON line of docker is an error that wraps
// ErrDockerLine.
//
// Zero or a negative value means no limit. With maxBytes, not more than the
// larger of 1 MiB and 8*maxBytes is read, whatever the lines look like.
func Tail(path string, maxLines int, maxBytes int64) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("log tail: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("log tail: %s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("log tail: %w", err)
	}
	defer file.Close()
	lines, err := lastLines(file, info.Size(), maxLines, maxBytes)
	if err != nil {
		return "", fmt.Errorf("log tail: reading %s: %w", path, err)
	}
	return string(cutFront(join(lines), maxBytes)), nil
}

// lastLines parses the lines at the end of a file of the given size, oldest
// first, going back block by block until it has enough.
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
			// The file shrank meanwhile; what is gone is gone.
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

// tail collects lines from the last to the first.
type tail struct {
	maxLines int
	maxBytes int64

	lines []Line // newest first
	// pieces are the blocks of the line whose beginning has not been reached,
	// last one first.
	pieces  [][]byte
	counted int
	bytes   int64
	started bool  // a newline was seen
	err     error // of a line that is refused
}

func (t *tail) done() bool {
	return t.err != nil || t.maxLines > 0 && t.counted >= t.maxLines || t.maxBytes > 0 && t.bytes >= t.maxBytes
}

// prepend goes backwards through the block that lies before everything seen.
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

// whole puts the pieces of a line together.
func (t *tail) whole() []byte {
	slices.Reverse(t.pieces)
	line := bytes.Join(t.pieces, nil)
	t.pieces = nil
	return line
}

// take adds a whole line. What follows the last newline of the file does not
// count as a line.
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

// join puts the lines, oldest first, together. Streams may interleave in the
// middle of a partial line: each is held back until its line is complete.
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

// cutFront keeps the last n bytes, less the rest of a character cut in two.
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

// tailBlock is the first block that is read from the end; each one after that is
// twice as large, up to blockSize.
const tailBlock = 1 << 10

// tailStart returns where the last n lines of a file of the given size begin.
// What follows the last newline comes on top of them.
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
