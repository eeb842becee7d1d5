package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJoin(t *testing.T) {
	require.NoError(t, Join())
	require.NoError(t, Join(nil, nil))
	require.EqualError(t, Join(nil, errors.New("a"), nil, errors.New("b")), "a\nb")
	var many []error
	for i := range 1000 {
		many = append(many, fmt.Errorf("error %d: %s", i, strings.Repeat("é", 10000)))
	}
	many = append(many, io.EOF)
	err := Join(many...)
	require.Less(t, len(err.Error()), 11000)
	require.True(t, strings.HasPrefix(err.Error(), "error 0: é"))
	require.True(t, strings.HasSuffix(err.Error(), "...\nand 996 more"))
	require.True(t, strings.ToValidUTF8(err.Error(), "?") == err.Error())
	require.ErrorIs(t, err, io.EOF, "the tree has all")
	nested := Join(fmt.Errorf("pod a: %w", err), io.EOF)
	require.True(t, strings.HasSuffix(nested.Error(), "and 996 more\nEOF"), "a bounded text is not cut")
}

// Up to the bounds the text has all errors.
func TestJoinAtTheBounds(t *testing.T) {
	for n, last := range map[int]string{5: "5", 6: "and 1 more"} {
		var errs []error
		for i := range n {
			errs = append(errs, errors.New(strconv.Itoa(i+1)))
		}
		lines := strings.Split(Join(errs...).Error(), "\n")
		require.Equal(t, last, lines[len(lines)-1])
	}
	long := strings.Repeat("x", joinedBytes)
	require.EqualError(t, Join(errors.New(long)), long)
	require.EqualError(t, Join(errors.New(long+"x")), long+"...")
}

func TestEachOf(t *testing.T) {
	in := func(err error) error { return fmt.Errorf("x: %w", err) }
	require.EqualError(t, EachOf(io.EOF, in), "x: EOF")
	joined := EachOf(Join(io.EOF, Join(io.ErrNoProgress, io.ErrShortWrite)), in)
	require.EqualError(t, joined, "x: EOF\nx: "+io.ErrNoProgress.Error()+"\nx: "+io.ErrShortWrite.Error())
	require.ErrorIs(t, joined, io.ErrShortWrite)
	require.NoError(t, EachOf(Join(io.EOF), func(error) error { return nil }))
}

// A call whose context is already done is not started.
func TestCallsAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var c Calls
	called := false
	err := c.Do(ctx, "unmount", "/a", func() error { called = true; return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "unmount /a: context canceled")
	require.NotErrorIs(t, err, ErrLeftBehind)
	<-c.group.Idle()
	require.False(t, called)
}

// A hanging call ends with its context. The next call on its path waits for it, calls on other
// paths do not.
func TestCallsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		release := make(chan struct{})
		short := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		hang := func() error { <-release; return errors.New("late") }
		err := c.Do(short(), "unmount", "/a", hang)
		require.ErrorIs(t, err, ErrLeftBehind)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "unmount /a")
		require.Equal(t, []string{"unmount /a since 2000-01-01T00:00:00Z"}, c.Running())

		require.NoError(t, c.Do(short(), "unmount", "/b", func() error { return nil }))
		called := false
		err = c.Do(short(), "look at", "/a", func() error { called = true; return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrLeftBehind)
		require.NoError(t, c.DoNow(short(), "detach", "/a", func() error { return nil }))
		synctest.Wait() // until the ended calls are removed
		require.Len(t, c.Running(), 1, "one goroutine, however often it is tried")
		require.False(t, called)

		time.AfterFunc(500*time.Millisecond, func() { close(release) })
		require.NoError(t, c.Do(short(), "look at", "/a", func() error { called = true; return nil }))
		require.True(t, called)
		synctest.Wait()
		require.Empty(t, c.Running())
		require.Empty(t, c.paths)
	})
}
