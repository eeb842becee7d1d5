package logs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// until reads changes until one is as wanted.
func until(t *testing.T, n Notifier, want Change) {
	t.Helper()
	for {
		changes, err := n.Next(nil)
		require.NoError(t, err)
		for _, c := range changes {
			if c == want {
				return
			}
		}
	}
}

func TestInotify(t *testing.T) {
	n, err := Inotify()
	require.NoError(t, err)
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.Mkdir(other, 0o700))
	require.ErrorIs(t, n.Add(filepath.Join(dir, "none")), os.ErrNotExist)
	require.NoError(t, n.Add(dir))
	require.NoError(t, n.Add(dir))
	require.NoError(t, n.Add(other))
	n.Remove(filepath.Join(dir, "none"))

	path := filepath.Join(dir, "0.log")
	file, err := os.Create(path)
	require.NoError(t, err)
	until(t, n, Change{Dir: dir, Name: "0.log"})
	require.NoError(t, os.Rename(path, path+".1"))
	until(t, n, Change{Dir: dir, Name: "0.log.1"})
	_, err = file.WriteString("x")
	require.NoError(t, err)
	until(t, n, Change{Dir: dir, Name: "0.log.1"})
	require.NoError(t, file.Close())
	until(t, n, Change{Dir: dir, Name: "0.log.1", Closed: true})

	n.Remove(dir)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Remove(other))
	changes, err := n.Next(nil)
	require.NoError(t, err)
	for _, c := range changes {
		require.NotEqual(t, dir, c.Dir)
	}
	if len(changes) == 0 || !changes[len(changes)-1].Unwatched {
		until(t, n, Change{Dir: other, Unwatched: true})
	}
	require.NoError(t, os.Mkdir(other, 0o700))
	require.NoError(t, n.Add(other))
	require.NoError(t, os.WriteFile(filepath.Join(other, "a"), nil, 0o600))
	until(t, n, Change{Dir: other, Name: "a"})

	failed := make(chan error)
	go func() {
		var err error
		for err == nil {
			_, err = n.Next(nil)
		}
		failed <- err
	}()
	require.NoError(t, n.Close())
	require.ErrorIs(t, <-failed, os.ErrClosed)
	require.Error(t, n.Add(dir))
}
