package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// counting checks, as it is written, that lines count up from zero.
type counting struct {
	mu   sync.Mutex
	rest []byte
	next int
	bad  string
}

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
	return len(p), nil
}

func (c *counting) result() (int, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next, c.bad
}

// underRotation follows a log while a rotator rotates it again and again, until
// the container has stopped, and checks that the follower has seen every number
// once. enough is called after each rotation; written tells how many there are.
func underRotation(t *testing.T, runtime RotatorRuntime, log Log, enough func(rotations int), written func() int) {
	t.Helper()
	reader := newReader(t, ReaderConfig{States: RuntimeStates(runtime)})
	rotations := 0
	rotator := newRotator(t, RotatorConfig{Runtime: runtime, MaxSize: 64 << 10, OnRotate: func(r Rotation) {
		if r.Rotated != "" {
			rotations++
			enough(rotations)
		}
	}})
	var out counting
	followed := make(chan error, 1)
	go func() {
		followed <- reader.Read(t.Context(), log, Options{Follow: true}, &out, nil)
	}()
	require.Eventually(t, func() bool { got, _ := out.result(); return got > 0 }, time.Minute, time.Millisecond, "it follows from the first file on")
	var err error
	for done := false; !done; {
		rotator.round(t.Context())
		select {
		case err = <-followed:
			done = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	require.NoError(t, err)
	got, bad := out.result()
	require.Empty(t, bad)
	require.Equal(t, written(), got)
	require.NotZero(t, rotations)
	t.Logf("%d lines, %d rotations", got, rotations)
	require.LessOrEqual(t, len(filesOf(t, log.Path)), defaultMaxFiles)
}

// exists waits for a file.
func exists(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(path)
		return err == nil
	}, time.Minute, time.Millisecond, filepath.Base(path))
}
