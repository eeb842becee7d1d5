package podfiles

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLogPaths(t *testing.T) {
	require.Equal(t, "/var/log/pods/shop_web_0d1e", Layout{LogRoot: "/var/log/pods"}.LogDir(labels.Pod{Name: "web", Namespace: "shop", UID: "0d1e"}))
	require.Equal(t, "a/3.log", request.LogPath("a", 3))
	uid, ok := uidOfLogDir("shop_web_0d1e")
	require.True(t, ok)
	require.EqualValues(t, "0d1e", uid)
	uid, ok = uidOfLogDir("shop_web_my_1")
	require.True(t, ok)
	require.EqualValues(t, "my_1", uid, "a UID may have an underscore")
	for _, bad := range []string{"", "nothing", "shop_web_"} {
		_, ok := uidOfLogDir(bad)
		require.False(t, ok, bad)
	}
}

// Owners share a root of logs. Each lists and makes its own directories only.
func TestOwnersOfLogDirs(t *testing.T) {
	root := t.TempDir()
	kubelet := Layout{LogRoot: root, LinkDir: filepath.Join(root, "links"), Owner: cri.Owner{Unlabelled: true}}
	edge, other := kubelet, kubelet
	edge.Owner, other.Owner = cri.Owner{Name: "edge"}, cri.Owner{Name: "other"}
	pod := func(uid types.UID) labels.Pod { return labels.Pod{Name: "web", Namespace: "shop", UID: uid} }
	require.NoError(t, kubelet.MakeLogDir(pod("1"), "a"))
	require.NoError(t, edge.MakeLogDir(pod("2"), ""))
	require.NoError(t, edge.MakeLogDir(pod("2"), "a"))
	require.ErrorIs(t, edge.MakeLogDir(pod("1"), ""), ErrForeign)
	require.ErrorIs(t, other.MakeLogDir(pod("2"), ""), ErrForeign)
	require.ErrorIs(t, kubelet.MakeLogDir(pod("2"), ""), ErrForeign)
	listed := func(l Layout) (uids []types.UID) {
		dirs, err := l.PodLogDirs()
		require.NoError(t, err)
		return slices.Sorted(maps.Keys(dirs))
	}
	require.Equal(t, []types.UID{"1"}, listed(kubelet))
	require.Equal(t, []types.UID{"2"}, listed(edge))
	require.Empty(t, listed(other))
	require.ErrorIs(t, other.AdoptLogDir(pod("2")), ErrForeign)
	require.NoError(t, edge.AdoptLogDir(pod("1")))
	require.NoError(t, edge.AdoptLogDir(pod("1")), "again")
	require.Equal(t, []types.UID{"1", "2"}, listed(edge))

	require.NoError(t, os.Mkdir(kubelet.LinkDir, 0o755))
	for _, target := range []string{"shop_web_2/a/0.log", "shop_web_9/a/0.log"} {
		require.NoError(t, os.Symlink(filepath.Join(root, target), filepath.Join(kubelet.LinkDir, target[9:10]+".log")))
	}
	for want, l := range map[string]Layout{"9.log": kubelet, "2.log,9.log": edge} {
		dangling, err := l.DanglingLinks()
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(dangling, ","))
	}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, entries, 3, "no temporary directory")
}

func TestLinkNames(t *testing.T) {
	p := labels.Pod{Name: "web", Namespace: "shop"}
	name := linkName(p, "a", "0123456789abcdef")
	require.Equal(t, "web_shop_a-0123456789abcdef.log", name)
	id, ok := IDOfLink(name)
	require.True(t, ok)
	require.Equal(t, "0123456789abcdef", id)
	p.Name = strings.Repeat("x", 253)
	name = linkName(p, "a", "0123456789abcdef")
	require.Len(t, name, 255)
	require.True(t, strings.HasSuffix(name, ".log"))
	for _, bad := range []string{"web-0123.log", "web-0123456789"} {
		_, ok := IDOfLink(bad)
		require.False(t, ok, bad)
	}
}

// C28: logs of earlier instances continue the count.
func TestRestartsInLogDir(t *testing.T) {
	dir := t.TempDir()
	count := func(files ...string) int32 {
		sub := filepath.Join(dir, strings.Join(append(files, "d"), "+"))
		require.NoError(t, os.Mkdir(sub, 0o755))
		for _, f := range files {
			require.NoError(t, os.WriteFile(filepath.Join(sub, f), nil, 0o600))
		}
		n, err := RestartsInLogDir(sub)
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, 0, count())
	require.EqualValues(t, 1, count("0.log"))
	require.EqualValues(t, 2, count("0.log", "1.log.20240102-030405.gz"))
	require.EqualValues(t, 11, count("9.log", "10.log"))
	require.EqualValues(t, 0, count("x.log", "1.logs", "log", "-3.log", "99999999999.log", "2147483647.log"))
	n, err := RestartsInLogDir(filepath.Join(dir, "missing"))
	require.NoError(t, err)
	require.Zero(t, n)
}

func FuzzInstanceOfLog(f *testing.F) {
	for _, seed := range []string{"0.log", "12.log.gz", ".log", "1.log.", "+1.log", "2147483647.log"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := instanceOfLog(name)
		if ok {
			require.GreaterOrEqual(t, n, int32(0))
			require.Greater(t, n+1, n, "the next number exists")
		}
	})
}

// A runtime that reports another path as a container's log removes no other file.
func TestRemoveLogsStaysInPodDirectory(t *testing.T) {
	root := t.TempDir()
	l := Layout{LogRoot: filepath.Join(root, "logs")}
	p := labels.Pod{Name: "web", Namespace: "shop", UID: "1"}
	write := func(path string) string {
		file := filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		return file
	}
	other, outside, own := write("logs/shop_web_2/a/0.log"), write("passwd"), write("logs/shop_web_1/a/0.log")
	for _, path := range []string{other, outside, filepath.Dir(other) + "/", l.LogDir(p), filepath.Dir(own) + "/", l.LogDir(p) + "/../shop_web_2/a/0.log", "0.log", ""} {
		require.NoError(t, l.RemoveLogs(p, "a", "c", path), path)
		for _, file := range []string{other, outside, own} {
			require.FileExists(t, file, path)
		}
	}
	require.NoError(t, l.RemoveLogs(p, "a", "c", own))
	require.NoFileExists(t, own)
}
