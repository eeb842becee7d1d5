package fs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/fs"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.ErrorIs(t, fs.Watch(t.Context(), nil, nil), errors.ErrUnsupported)
	})
	dir := t.TempDir()
	file, end := filepath.Join(dir, "f"), filepath.Join(dir, "end")
	odd := errors.New("odd")
	var queue fs.Queue
	var seen []string
	begin := func(q fs.Queue) error {
		queue = q
		watch, err := q.Add(dir, fs.Changes)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
		require.NoError(t, os.Symlink(file, filepath.Join(dir, "link")))
		require.NoError(t, os.Remove(file))
		require.NoError(t, os.Mkdir(end, 0o700))
		q.Remove(watch)
		return nil
	}
	err := fs.Watch(t.Context(), begin, func(events []fs.Event) error {
		for _, e := range events {
			switch {
			case e.Mask&unix.IN_IGNORED != 0:
				return odd
			case e.Written():
				seen = append(seen, e.Name+" written")
			case e.Writing(filepath.Join(dir, e.Name)):
				seen = append(seen, e.Name+" writing")
			default:
				seen = append(seen, e.Name)
			}
		}
		return nil
	})
	require.ErrorIs(t, err, odd)
	require.Equal(t, []string{"f", "f writing", "f written", "link", "f", "end"}, seen, "it was deleted before the scan")
	queue.Remove(1)
	require.ErrorIs(t, fs.Watch(t.Context(), func(fs.Queue) error { return odd }, nil), odd)
}

func TestWatchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begin := func(q fs.Queue) error {
		_, err := q.Add(t.TempDir(), fs.Changes)
		cancel()
		return err
	}
	require.ErrorIs(t, fs.Watch(ctx, begin, nil), os.ErrDeadlineExceeded)
}

func TestWriting(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	created := fs.Event{Mask: unix.IN_CREATE}
	require.True(t, created.Writing(file))
	require.NoError(t, os.Link(file, file+"2"))
	require.False(t, created.Writing(file), "a hard link is complete")
	require.False(t, fs.Event{Mask: unix.IN_ATTRIB}.Writing(file))
}
