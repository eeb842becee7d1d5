package stats_test

import (
	"io/fs"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/stats"
)

// broken has one file or link that cannot be read.
type broken struct {
	fstest.MapFS
	name string
	err  error
}

func (b broken) ReadFile(name string) ([]byte, error) {
	if name == b.name {
		return nil, &fs.PathError{Op: "read", Path: name, Err: b.err}
	}
	return b.MapFS.ReadFile(name)
}

func (b broken) ReadLink(name string) (string, error) {
	if name == b.name {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: b.err}
	}
	return b.MapFS.ReadLink(name)
}

// A process that ends while its network is read is no error; everything else is told.
func TestProcessHasEnded(t *testing.T) {
	for _, name := range []string{"7/ns/net", "self/ns/net", "7/net/dev"} {
		for err, told := range map[error]bool{fs.ErrNotExist: false, syscall.ENODEV: false, syscall.ESRCH: false, syscall.EACCES: true} {
			s := newScene(t)
			c := s.inCgroup(func(cfg *stats.CollectorConfig) { cfg.Proc = broken{proc("net:[2]"), name, err} })
			pods, unread, failed := c.Collect(t.Context(), stats.Wanted{Network: true})
			require.NoError(t, failed)
			require.Nil(t, pods[0].Network, name)
			if !told {
				require.Empty(t, unread, "%s: %v", name, err)
				continue
			}
			require.Len(t, unread, 1, "%s: %v", name, err)
			require.ErrorIs(t, unread[0], err)
		}
	}
}
