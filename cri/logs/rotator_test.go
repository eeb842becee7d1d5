package logs

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestRotatorRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t)
		r := newRotator(t, RotatorConfig{Runtime: c, MaxSize: 1000, Workers: 3})
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		for i := range 3 { // at 0, 10 and 20 seconds
			synctest.Wait()
			c.numbers(100*i, 100*i+100)
			time.Sleep(10*time.Second - time.Millisecond)
			synctest.Wait()
			require.Equal(t, i, c.reopened())
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, <-ended)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRotator(t, RotatorConfig{Runtime: stuck{}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, r.Run(ctx), "ignored")
		time.Sleep(time.Hour)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t)
		c.numbers(0, 100)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, newRotator(t, RotatorConfig{Runtime: c, MaxSize: -1}).Run(ctx))
		require.Zero(t, c.reopens)
	})
}

// stuck is a runtime that ignores its contexts for half an hour.
type stuck struct{ RotatorRuntime }

func (stuck) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	time.Sleep(30 * time.Minute)
	return nil, nil
}

func TestRotatorConfig(t *testing.T) {
	c := newContainer(t)
	for field, cfg := range map[string]RotatorConfig{
		"Runtime":  {},
		"MaxFiles": {Runtime: c, MaxFiles: 1},
		"Period":   {Runtime: c, Period: time.Second},
		"Workers":  {Runtime: c, Workers: -1},
	} {
		_, err := NewRotator(cfg)
		require.ErrorContains(t, err, field)
	}
	r := newRotator(t, RotatorConfig{Runtime: c})
	require.Equal(t, []any{int64(10 << 20), 5, 10 * time.Second, 1}, []any{r.cfg.MaxSize, r.cfg.MaxFiles, r.cfg.Period, r.cfg.Workers})
}

func TestRenameNew(t *testing.T) {
	for name, rename := range map[string]func(from, to string) error{"rename": renameNew, "link": linkNew} {
		path := write(t, one)
		require.NoError(t, os.WriteFile(path+"2", []byte(two), 0o600), name)
		require.ErrorIs(t, rename(path, path+"2"), os.ErrExist, name)
		require.NoError(t, rename(path, path+"3"), name)
		require.Equal(t, []string{"0.log2", "0.log3"}, filesOf(t, path))
		require.ErrorIs(t, rename(path, path+"4"), os.ErrNotExist, name)
	}
}

// Compressed files are whole, and have the mode of the log, whatever the umask.
func TestCompress(t *testing.T) {
	text := strings.Repeat(one+two, 10000)
	path := write(t, text)
	require.NoError(t, os.Chmod(path, 0o646))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, compress(ctx, path), context.Canceled)
	require.Equal(t, []string{"0.log"}, filesOf(t, path))
	require.NoError(t, compress(t.Context(), path))
	require.Equal(t, []string{"0.log.gz"}, filesOf(t, path))
	file, err := os.Open(path + ".gz")
	require.NoError(t, err)
	defer file.Close()
	info, err := file.Stat()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o646), info.Mode().Perm())
	zip, err := gzip.NewReader(file)
	require.NoError(t, err)
	got, err := io.ReadAll(zip)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// The name of a file that is being compressed may be taken by a link.
func TestCompressFollowsNoLink(t *testing.T) {
	path := write(t, one)
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("other"), 0o600))
	require.NoError(t, os.Symlink(other, path+tempSuffix))
	require.Error(t, compress(t.Context(), path))
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "other", string(text))
	require.FileExists(t, path)
}
