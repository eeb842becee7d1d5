package fs

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A watch follows a tree that is created, moved away and replaced. It ignores events in a folder
// that was moved away.
func TestTree(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "root")
	below := filepath.Join(root, "below")
	hints := make(chan Hint, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		tree := Tree{Root: root, Below: func() []string { return []string{below} }, Ignore: func(name string) bool { return name == "ignored" }}
		done <- tree.Watch(ctx, func(h Hint) { hints <- h })
	}()
	until := func(want Hint) {
		t.Helper()
		for {
			select {
			case h := <-hints:
				require.NotContains(t, h.Path, "ignored")
				if h == want {
					return
				}
			case <-time.After(time.Minute):
				t.Fatal("no hint")
			}
		}
	}
	put := func(path string) { require.NoError(t, os.WriteFile(path, []byte("x"), 0o600)) }
	until(Hint{})
	put(filepath.Join(parent, "other"))
	require.NoError(t, os.Mkdir(root, 0o700))
	until(Hint{Path: root})
	until(Hint{})
	put(filepath.Join(root, "ignored"))
	put(filepath.Join(root, "a"))
	until(Hint{Path: filepath.Join(root, "a"), State: Written})
	require.NoError(t, os.Mkdir(below, 0o700))
	until(Hint{Path: below})
	until(Hint{})
	put(filepath.Join(below, "b"))
	until(Hint{Path: filepath.Join(below, "b"), State: Written})

	away := filepath.Join(t.TempDir(), "away")
	require.NoError(t, os.Rename(root, away))
	until(Hint{})
	require.NoError(t, os.Remove(filepath.Join(away, "a")))
	require.NoError(t, os.Remove(filepath.Join(away, "below", "b")))
	require.NoError(t, os.Symlink(away, root))
	until(Hint{})
	require.Empty(t, hints, "the removals are no hints")
	put(filepath.Join(root, "c"))
	until(Hint{Path: filepath.Join(root, "c"), State: Written})
	require.NoError(t, os.Remove(filepath.Join(root, "c")))
	until(Hint{Path: filepath.Join(root, "c"), State: Deleted})
	cancel()
	require.ErrorIs(t, <-done, os.ErrDeadlineExceeded)
	require.Error(t, Tree{Root: "/nowhere/root"}.Watch(t.Context(), nil))
}
