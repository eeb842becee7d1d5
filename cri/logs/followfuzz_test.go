package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// scribe writes a log by a script as a runtime does: in pieces and with rotations, after which
// lines may still go to the old file for a while.
type scribe struct {
	t        *testing.T
	path     string
	now, old *os.File // old is nil once it is closed
	files    []*strings.Builder
	rest     map[*os.File]string // the second half of an unfinished line
	n        int
	closed   []string // complete rotated files
	moved    string
	movedAt  time.Time
}

func newScribe(t *testing.T) *scribe {
	s := &scribe{t: t, path: filepath.Join(t.TempDir(), "0.log"), rest: map[*os.File]string{}}
	s.create()
	return s
}

func (s *scribe) create() {
	file, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	require.NoError(s.t, err)
	s.now = file
	s.files = append(s.files, &strings.Builder{})
}

func (s *scribe) put(file *os.File, text string) {
	_, err := file.WriteString(text)
	require.NoError(s.t, err)
	i := len(s.files) - 1
	if file == s.old {
		i--
	}
	s.files[i].WriteString(text)
}

// line returns a line of the kind that arg selects.
func (s *scribe) line(arg byte) string {
	s.n++
	stream, tag := Stdout, "F"
	if arg&1 != 0 {
		stream = Stderr
	}
	if arg&2 != 0 {
		tag = "P"
	}
	at := time.Unix(int64(s.n), 0).UTC().Format(time.RFC3339Nano)
	return fmt.Sprintf("%s %s %s %d%s\n", at, stream, tag, s.n, strings.Repeat("x", int(arg)*int(arg)/8))
}

// finish writes the second half of an unfinished line.
func (s *scribe) finish(file *os.File) {
	if rest := s.rest[file]; rest != "" {
		s.put(file, rest)
		delete(s.rest, file)
	}
}

func (s *scribe) write(file *os.File, arg byte, half bool) {
	s.finish(file)
	line := s.line(arg)
	if half {
		at := int(arg) * len(line) / 256
		s.rest[file], line = line[at:], line[:at]
	}
	s.put(file, line)
}

func (s *scribe) closeOld() {
	if s.old == nil {
		return
	}
	s.finish(s.old)
	require.NoError(s.t, s.old.Close())
	s.old = nil
	s.closed = append(s.closed, s.moved)
}

func (s *scribe) rotate() {
	s.closeOld()
	s.moved = fmt.Sprintf("%s.20260102-%06d", s.path, len(s.files))
	require.NoError(s.t, os.Rename(s.path, s.moved))
	s.old, s.movedAt = s.now, time.Now()
	s.create()
}

func (s *scribe) do(op, arg byte) {
	switch op % 9 {
	case 0, 1:
		s.write(s.now, arg, false)
	case 2:
		s.write(s.now, arg, true)
	case 3:
		s.finish(s.now)
	case 4:
		if s.old != nil {
			s.write(s.old, arg, arg%3 == 0)
		}
	case 5:
		s.rotate()
	case 6:
		s.closeOld()
	case 7:
		if len(s.closed) > 0 {
			// Only after a follower has left it, which takes a quiet time per file.
			time.Sleep(time.Duration(len(s.closed)+2) * 2 * time.Second)
			require.NoError(s.t, compress(s.t.Context(), s.closed[0]))
			s.closed = s.closed[1:]
		}
	case 8:
		time.Sleep(time.Duration(arg) * 10 * time.Millisecond)
		if time.Since(s.movedAt) > 5*time.Second {
			s.closeOld() // before the follower leaves an unclosed file
		}
	}
}

func (s *scribe) text() string {
	var all strings.Builder
	for _, file := range s.files {
		all.WriteString(file.String())
	}
	return all.String()
}

// The follower's output equals the written lines, also across several rotations and with
// compression of files already read. C40: lines that still arrive in the old file precede lines of
// the new one.
func FuzzFollow(f *testing.F) {
	f.Add([]byte{0, 10, 8, 200, 2, 40, 8, 200, 3, 0, 5, 0, 4, 3, 0, 8, 8, 200, 4, 7, 6, 0, 8, 200, 7, 0}, true)
	f.Add([]byte{0, 3, 5, 0, 0, 2, 6, 0, 7, 0, 5, 0, 0, 1, 5, 0, 0, 0, 2, 128}, true)
	f.Add([]byte{2, 255, 8, 110, 5, 0, 8, 1, 4, 255, 8, 110, 0, 255, 5, 1, 7, 1}, false)
	f.Add([]byte{1, 250, 1, 251, 1, 252, 1, 253, 5, 0, 1, 250, 6, 0, 8, 255, 7, 0, 5, 0, 6, 0, 7, 0, 2, 250}, true)
	f.Add([]byte("20X07020"), false)
	f.Fuzz(func(t *testing.T, script []byte, knowsWriters bool) {
		synctest.Test(t, func(t *testing.T) {
			s := newScribe(t)
			st := &states{}
			r := notified(t, ReaderConfig{States: st}, noNotifier)
			if !knowsWriters {
				r.writerOf = func(*os.File) writer { return writerUnknown }
			}
			follow := startFollow(t, r, s.path, Options{Timestamps: true})
			for ; len(script) >= 2; script = script[2:] {
				if !knowsWriters {
					s.closeOld() // without writer detection they must be short
				}
				s.do(script[0], script[1])
			}
			s.closeOld()
			require.NoError(t, s.now.Close())
			st.set(nil, "c")
			limit := 2 * time.Second
			if !knowsWriters {
				limit *= 2 // it waits for a quiet time
			}
			require.NoError(t, follow.endsWithin(limit))
			require.Equal(t, byTheBook(s.text(), Options{Timestamps: true}), follow.out.String())
		})
	})
}
