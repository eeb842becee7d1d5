package logs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const stamp = "2026-01-02T03:04:05.000000006Z "

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestTail(t *testing.T) {
	three := stamp + "stdout F one\n" + stamp + "stderr F two\n" + stamp + "stdout F three\n"
	for _, tc := range []struct {
		name, file string
		lines      int
		bytes      int64
		want       string
	}{
		{"empty file", "", 80, 2048, ""},
		{"everything", three, 0, 0, "one\ntwo\nthree\n"},
		{"more lines than there are", three, 80, 2048, "one\ntwo\nthree\n"},
		{"last lines", three, 2, 0, "two\nthree\n"},
		{"last bytes", three, 0, 8, "o\nthree\n"},
		{"last bytes of last lines", three, 1, 4, "ree\n"},
		{"unterminated line is extra", three + stamp + "stdout F fo", 1, 0, "three\nfo\n"},
		{"half a header is skipped", three + "2026-01-", 1, 0, "three\n"},
		{"parts are joined", stamp + "stdout P a\n" + stamp + "stdout P b\n" + stamp + "stdout F c\n", 0, 0, "abc\n"},
		{"parts count as lines", stamp + "stdout P a\n" + stamp + "stdout P b\n" + stamp + "stdout F c\n", 2, 0, "bc\n"},
		{"streams join apart", stamp + "stdout P a\n" + stamp + "stderr F x\n" + stamp + "stdout F b\n", 0, 0, "x\nab\n"},
		{"a part without its rest", stamp + "stdout F a\n" + stamp + "stdout P b\n", 0, 0, "a\nb"},
		{"bad lines are skipped", "rubbish\n" + stamp + "stdout F a\n\nmore rubbish\n" + stamp + "stdout F b\n", 0, 0, "a\nb\n"},
		{"bad lines count", stamp + "stdout F a\nrubbish\n" + stamp + "stdout F b\n", 2, 0, "b\n"},
		{"no half characters", stamp + "stdout F aäß\n", 0, 4, "ß\n"},
		{"bytes that are no characters stay", stamp + "stdout F \x80\x80\x80\x80\x80\x80\n", 0, 6, "\x80\x80\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Tail(t.Context(), write(t, tc.file), tc.lines, tc.bytes)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

// C46: at most 80 lines and their last 2048 bytes.
func TestTailOfTerminationMessage(t *testing.T) {
	var log, want strings.Builder
	for i := range 500 {
		fmt.Fprintf(&log, "%sstdout F line %03d\n", stamp, i)
		if i >= 420 {
			fmt.Fprintf(&want, "line %03d\n", i)
		}
	}
	path := write(t, log.String())
	got, err := Tail(t.Context(), path, 80, 2048)
	require.NoError(t, err)
	require.Equal(t, want.String(), got)
	got, err = Tail(t.Context(), path, 0, 2048)
	require.NoError(t, err)
	require.Len(t, got, 2048)
}

func TestTailErrors(t *testing.T) {
	_, err := Tail(t.Context(), filepath.Join(t.TempDir(), "none"), 1, 1)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Tail(t.Context(), t.TempDir(), 1, 1)
	require.ErrorContains(t, err, "not a regular file")
}

type counter struct {
	io.ReaderAt
	n int64
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

// Tail reads at most the larger of 1 MiB and eight times maxBytes.
func TestTailOfAnEndlessLine(t *testing.T) {
	endless := stamp + "stdout F " + strings.Repeat("x", 8<<20)
	c := &counter{ReaderAt: strings.NewReader(endless)}
	lines, err := lastLines(c, int64(len(endless)), 80, 2048)
	require.NoError(t, err)
	require.Empty(t, lines, "its beginning is out of reach")
	require.LessOrEqual(t, c.n, int64(minScan))
	_, err = lastLines(strings.NewReader(endless[:1000]), int64(len(endless)), 0, 0)
	require.NoError(t, err, "a file that shrank")
}

// forward is a simple reference implementation of Tail: it parses all lines and returns the last
// ones.
func forward(text string, maxLines int, maxBytes int64) string {
	physical := strings.Split(text, "\n")
	if maxLines > 0 && len(physical)-1 > maxLines {
		physical = physical[len(physical)-1-maxLines:]
	}
	var lines []Line
	for _, p := range physical {
		if line, err := ParseLine([]byte(p)); err == nil {
			lines = append(lines, line)
		}
	}
	return string(cutFront(join(lines), maxBytes))
}

func FuzzTail(f *testing.F) {
	f.Add([]byte(stamp+"stdout F one\nrubbish\n"+stamp+"stderr P two"), uint8(2), uint16(0), uint16(0))
	f.Add([]byte(stamp+"stdout P a\n"+stamp+"stdout F ä\n"), uint8(0), uint16(2), uint16(400))
	f.Add(bytes.Repeat([]byte("\n"), 100), uint8(9), uint16(9), uint16(2000))
	f.Fuzz(func(t *testing.T, in []byte, maxLines uint8, maxBytes, pad uint16) {
		// Padding moves lines across the borders of blocks.
		text := stamp + "stdout F " + strings.Repeat("p", int(pad)*4) + "\n" + string(in)
		lines, err := lastLines(strings.NewReader(text), int64(len(text)), int(maxLines), 0)
		require.NoError(t, err)
		require.Equal(t, forward(text, int(maxLines), 0), string(join(lines)))
		lines, err = lastLines(strings.NewReader(text), int64(len(text)), int(maxLines), int64(maxBytes))
		require.NoError(t, err)
		got := cutFront(join(lines), int64(maxBytes))
		if maxBytes > 0 {
			require.LessOrEqual(t, len(got), int(maxBytes))
		}
		if utf8.ValidString(text) {
			require.True(t, utf8.Valid(got))
		}
	})
}

// Tail never waits for the writer of a pipe, and ends with its context.
func TestTailDoesNotWait(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "0.log")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	_, err := Tail(t.Context(), pipe, 1, 1)
	require.ErrorContains(t, err, "not a regular file")

	path := write(t, ""+stamp+"stdout F a\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Tail(ctx, path, 1, 1)
	require.ErrorIs(t, err, context.Canceled)
	r, err := NewReader(ReaderConfig{})
	require.NoError(t, err)
	one := int64(1)
	require.ErrorIs(t, r.Read(ctx, Log{Path: path}, Options{TailLines: &one}, io.Discard, io.Discard), context.Canceled)
	segment, err := openSegment(path)
	require.NoError(t, err)
	defer segment.close()
	require.ErrorIs(t, (&reading{segment: segment}).tail(ctx, &one), context.Canceled)
}

// The search for the first of many lines ends with its request.
func TestSearchForTailEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	file := endlessFile{func() {
		if reads++; reads == 3 {
			cancel()
		}
	}}
	_, err := tailStart(readerAt{ctx, file}, 1<<40, 1<<40)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, reads)
}

// endlessFile is an endless file that calls a function at each read.
type endlessFile struct{ called func() }

func (r endlessFile) ReadAt(p []byte, _ int64) (int, error) {
	r.called()
	return len(p), nil
}
