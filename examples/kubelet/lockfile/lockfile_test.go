package lockfile

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func watched(t *testing.T, ctx context.Context, l *Lock) <-chan error {
	contended := make(chan error, 1)
	go func() { contended <- l.Contended(ctx) }()
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return contended
}

func acquire(t *testing.T, path string) *Lock {
	l, err := Acquire(t.Context(), path)
	require.NoError(t, err)
	return l
}

// A6: a second agent is noticed, even if it came before the first one was watching, and gets the
// lock when the first one exits.
func TestSecondAgentGetsTheLock(t *testing.T) {
	for name, early := range map[string]bool{"late": false, "early": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "lock")
			first, second := acquire(t, path), make(chan *Lock, 1)
			come := func() {
				go func() {
					l, err := Acquire(t.Context(), path)
					if err != nil {
						t.Error(err)
					}
					second <- l
				}()
			}
			if early {
				come()
			}
			contended := make(chan error, 1)
			go func() { contended <- first.Contended(t.Context()) }()
			if !early {
				come()
			}
			require.NoError(t, <-contended)
			require.Empty(t, second, "two have the lock")
			require.NoError(t, first.Close())
			require.NoError(t, (<-second).Close())
		})
	}
}

// The next agent does not lock a removed or replaced file.
func TestFileIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := acquire(t, path)
	contended := watched(t, t.Context(), first)
	require.NoError(t, os.Chmod(path, 0o640))
	require.NoError(t, os.Remove(path))
	require.NoError(t, <-contended)
	require.NoError(t, first.Contended(t.Context()), "it was removed already")

	second := acquire(t, path)
	contended = watched(t, t.Context(), second)
	other := path + ".other"
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, os.Rename(other, path))
	require.NoError(t, <-contended)
}

// Waits end with their context.
func TestContextEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := acquire(t, path)
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	require.ErrorIs(t, <-watched(t, ctx, first), context.DeadlineExceeded)
	_, err := Acquire(ctx, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, path)
	_, err = Acquire(t.Context(), filepath.Join(path, "lock"))
	require.ErrorContains(t, err, "not a directory")
}

// lockPath passes the path to the process that TestKilled kills.
const lockPath = "PODWRIGHT_TEST_LOCK"

// The lock of a killed process is free.
func TestKilled(t *testing.T) {
	if path := os.Getenv(lockPath); path != "" {
		acquire(t, path)
		_, _ = os.Stdout.WriteString("locked\n")
		time.Sleep(time.Hour)
	}
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), lockPath+"="+path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	short, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	_, err = Acquire(short, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NoError(t, acquire(t, path).Close())
}

// A link in the place of the lock file is refused, and its target stays as it is. So is a file that
// cannot be locked.
func TestLinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "lock"), filepath.Join(dir, "target")
	require.NoError(t, os.Symlink(target, path))
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second) // a followed link would be tried again without end
	defer stop()
	_, err := Acquire(ctx, path)
	require.ErrorIs(t, err, unix.ELOOP)
	require.NoFileExists(t, target)
	require.NoError(t, os.Remove(path))
	require.NoError(t, unix.Mkfifo(path, 0o600))
	_, err = Acquire(ctx, path)
	require.ErrorContains(t, err, "is not a regular file")
}
