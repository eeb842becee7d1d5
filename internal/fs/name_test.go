package fs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/fs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheck(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "..a", "...", "a b", "kubernetes.io~csi", "-", strings.Repeat("x", fs.LongestName)} {
		require.NoError(t, fs.CheckName("it", name))
		path := filepath.Join(root, name)
		require.NoError(t, os.Mkdir(path, 0o700))
		require.Equal(t, root, filepath.Dir(path))
	}
	for _, name := range []string{"", ".", "..", "/", "a/b", "a/", "../a", "/a", "a\x00", strings.Repeat("x", fs.LongestName+1)} {
		require.ErrorContains(t, fs.CheckName("volume: it", name), "volume: it: \"", "%q", name)
	}
}
