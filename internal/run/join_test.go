package run

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

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
	require.True(t, strings.HasSuffix(nested.Error(), "and 996 more\nEOF"), "what is bounded is not cut")
}

// Up to the bounds all of it is said.
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
