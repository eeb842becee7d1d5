package stats_test

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/stats"
)

// A process that ends while its network is read is no error; everything else is told.
func TestProcessHasEnded(t *testing.T) {
	for _, name := range []string{"7/ns/net", "self/ns/net", "7/net/dev"} {
		for err, told := range map[error]bool{fs.ErrNotExist: false, syscall.ENODEV: false, syscall.ESRCH: false, syscall.EACCES: true} {
			s := newScene(t)
			c := s.inCgroup(func(cfg *stats.CollectorConfig) {
				cfg.Proc = stats.FailingFS{MapFS: proc("net:[2]"), Name: name, Err: err}
			})
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
