package resize

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/actions"
)

// What is recorded survives a restart and damage, and nothing else does.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "actuated")
	var logged bytes.Buffer
	open := func() Store {
		store, err := NewFolder(FolderConfig{Dir: dir, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, err)
		return store
	}
	r := withContainer(actions.Actuated{}, "a", needs(100, 1))
	r.Pod = new(needs(1, 1))
	for _, store := range []Store{NewMemory(), open()} {
		got, err := store.Load("1")
		require.NoError(t, err)
		require.True(t, got.Empty())
		require.NoError(t, store.Save("1", r))
		got, err = store.Load("1")
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	again, err := open().Load("1")
	require.NoError(t, err)
	require.True(t, sameRequirements(r.Containers["a"], again.Containers["a"]))
	require.True(t, samePodRequirements(r.Pod, again.Pod))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1.json"), []byte("{"), 0o600))
	require.Empty(t, logged.String())
	store := open()
	for range 2 {
		damaged, err := store.Load("1")
		require.NoError(t, err)
		require.True(t, damaged.Empty())
	}
	require.Equal(t, 1, strings.Count(logged.String(), "file="+filepath.Join(dir, "1.json")), "said once: %s", &logged)
	require.NoError(t, store.Save("1", actions.Actuated{}))
	require.NoError(t, store.Save("1", actions.Actuated{}), "nothing to drop")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	for _, bad := range []string{"", "../x", "a/b"} {
		require.Error(t, store.Save(types.UID(bad), r), bad)
		_, err := store.Load(types.UID(bad))
		require.Error(t, err, bad)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "2.json"), 0o700))
	_, err = store.Load("2")
	require.Error(t, err, "what cannot be read is not nothing")
	_, err = NewFolder(FolderConfig{})
	require.ErrorContains(t, err, "Dir")
}
