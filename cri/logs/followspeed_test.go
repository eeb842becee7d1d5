package logs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// counting checks while it is written that lines count up from zero.
type counting struct {
	mu    sync.Mutex
	rest  []byte
	next  int
	bad   string
	wrote chan struct{}
}

func newCounting() *counting { return &counting{wrote: make(chan struct{}, 1)} }

func (c *counting) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := append(c.rest, p...)
	for c.bad == "" {
		line, after, ok := bytes.Cut(rest, newline)
		if !ok {
			break
		}
		if string(line) != strconv.Itoa(c.next) {
			c.bad = fmt.Sprintf("%q in place of %d", line, c.next)
		}
		c.next++
		rest = after
	}
	c.rest = append(c.rest[:0], rest...)
	select {
	case c.wrote <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (c *counting) result() (int, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next, c.bad
}

// reach waits for this number of lines, or an error.
func (c *counting) reach(lines int) {
	for {
		if got, bad := c.result(); got >= lines || bad != "" {
			return
		}
		<-c.wrote
	}
}

// C40 at full speed: while a rotator rotates a log repeatedly until its container has stopped, the
// follower neither loses nor duplicates a line.
func TestFollowUnderRotation(t *testing.T) {
	const bursts, lines, block = 10, 5000, 1000
	c, out := newContainer(t), newCounting()
	c.numbers(0, 1)
	var written atomic.Int64 // lines
	rotated := 0             // lines at the last rotation
	reader := newReader(t, ReaderConfig{States: RuntimeStates(c)})
	rotations := make(chan struct{}, 1000)
	rotator := newRotator(t, RotatorConfig{Runtime: c, MaxSize: 64 << 10, OnRotate: func(r Rotation) {
		if r.Rotated != "" {
			rotated = int(written.Load())
			rotations <- struct{}{}
		}
	}})
	followed := make(chan error, 1)
	go func() {
		followed <- reader.Read(t.Context(), Log{Path: c.path, ContainerID: "c"}, Options{Follow: true}, out, nil)
	}()
	out.reach(1)
	go func() {
		defer c.exit()
		for i := range bursts {
			var text bytes.Buffer
			for n := max(1, i*lines); n < (i+1)*lines; n++ {
				fmt.Fprintln(&text, n)
			}
			for text.Len() > 0 { // lines are split, as by a pipe
				piece := text.Next(block)
				c.write(inLines(piece))
				written.Add(int64(bytes.Count(piece, newline)))
			}
			out.reach((i + 1) * lines)
		}
		<-rotations // the last one may still be due
	}()
	var err error
	for done := false; !done; {
		// A reader that is a file behind loses it.
		if got, bad := out.result(); got >= rotated || bad != "" {
			rotator.round(t.Context())
		}
		select {
		case err = <-followed:
			done = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	require.NoError(t, err)
	got, bad := out.result()
	require.Empty(t, bad)
	require.Equal(t, bursts*lines, got)
	require.LessOrEqual(t, len(filesOf(t, c.path)), 5)
}

// inLines formats a piece of output as a runtime does.
func inLines(piece []byte) string {
	var log strings.Builder
	for line := range bytes.Lines(piece) {
		content, whole := bytes.CutSuffix(line, newline)
		tag := map[bool]string{true: "F", false: "P"}[whole]
		fmt.Fprintf(&log, "%sstdout %s %s\n", stamp, tag, content)
	}
	return log.String()
}
