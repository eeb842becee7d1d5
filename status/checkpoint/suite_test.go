package checkpoint_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/statustest"
)

// A Keeper is a status.Receiver.
func TestKeeperSuite(t *testing.T) {
	statustest.Run(t, func(t testing.TB) statustest.Subject {
		dir, uids := t.TempDir(), map[string]types.UID{}
		file := func(uid types.UID) string { return filepath.Join(dir, string(uid), "status.json") }
		store, err := checkpoint.New(checkpoint.Config{File: file})
		require.NoError(t, err)
		keeper, err := checkpoint.NewKeeper(checkpoint.KeeperConfig{Store: store})
		require.NoError(t, err)
		return statustest.Subject{
			Sink: status.SinkFunc(keeper.Save),
			Create: func(pod *v1.Pod) *v1.Pod {
				uids[pod.Name] = pod.UID
				require.NoError(t, os.Mkdir(filepath.Dir(file(pod.UID)), 0o750))
				keeper.Recall(pod.UID)
				return pod
			},
			Pod: func(_, name string) *v1.Pod {
				reader, err := checkpoint.New(checkpoint.Config{File: file}) // as the next agent
				require.NoError(t, err)
				record, err := reader.Load(uids[name])
				require.NoError(t, err)
				return &v1.Pod{Status: record.Status}
			},
			Fail: func(fail bool) { // a folder has the name of the temporary file
				for _, uid := range uids {
					require.NoError(t, os.RemoveAll(file(uid)+".tmp"))
					if fail {
						require.NoError(t, os.MkdirAll(filepath.Join(file(uid)+".tmp", "x"), 0o750))
					}
				}
			},
		}
	})
}
