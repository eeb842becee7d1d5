package podfolder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/podworkers/stages/stagestest"
	"github.com/podwright/podwright/volume/mounts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFolders(t testing.TB, cfg Config) *Folders {
	t.Helper()
	if cfg.Root == "" {
		cfg.Root = filepath.Join(t.TempDir(), "pods")
	}
	f, err := New(cfg)
	require.NoError(t, err)
	return f
}

func podOf(uid types.UID) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }

func TestStage(t *testing.T) {
	stagestest.Run(t, func(t testing.TB) stagestest.Subject {
		f := newFolders(t, Config{})
		return stagestest.Subject{
			Open: func() (stages.Stage, error) { return New(f.cfg) },
			Holds: func(uid types.UID) bool {
				_, err := os.Lstat(f.Pod(uid))
				return err == nil
			},
			Halfway: map[string]func(*v1.Pod) error{
				"the folder only":           func(pod *v1.Pod) error { return os.MkdirAll(f.Pod(pod.UID), mode) },
				"volumes only":              func(pod *v1.Pod) error { return os.MkdirAll(f.volumes(pod.UID), mode) },
				"a file of another kubelet": func(pod *v1.Pod) error { return os.MkdirAll(filepath.Join(f.Pod(pod.UID), "etc-hosts"), mode) },
			},
		}
	})
}

func TestBadInputIsRefused(t *testing.T) {
	_, err := New(Config{Root: "pods"})
	require.ErrorContains(t, err, "Config.Root")

	f := newFolders(t, Config{})
	precious := filepath.Join(f.cfg.Root, "..", "precious")
	require.NoError(t, os.MkdirAll(precious, mode))
	for _, uid := range []types.UID{"", ".", "..", "../precious", "a/b", "/"} {
		require.ErrorContains(t, f.Prepare(t.Context(), podOf(uid)), "not a valid folder name", uid)
		require.ErrorContains(t, f.Release(t.Context(), uid), "not a valid folder name", uid)
	}
	require.DirExists(t, precious)
}

// A folder with mounts stays as it is. Mounts of another pod have no effect.
func TestMounts(t *testing.T) {
	var failure error
	m := &mounts.Memory{Fault: func(context.Context, string, string) error { return failure }}
	f := newFolders(t, Config{})
	f.mounts = m
	require.NoError(t, f.Prepare(t.Context(), podOf("1")))
	require.NoError(t, f.Prepare(t.Context(), podOf("11")))
	root, err := filepath.EvalSymlinks(f.cfg.Root)
	require.NoError(t, err)
	point := filepath.Join(root, "1", "volumes")
	for _, dir := range []string{root, point, filepath.Join(root, "11")} {
		require.NoError(t, m.Mount(t.Context(), mounts.Mount{Target: dir, FSType: "ext4"}))
	}
	err = f.Release(t.Context(), "1")
	require.ErrorIs(t, err, ErrMounted)
	require.ErrorContains(t, err, point)
	require.DirExists(t, f.plugins("1"))

	failure = errors.New("mount table unreadable")
	require.ErrorIs(t, f.Release(t.Context(), "1"), failure)
	require.DirExists(t, f.plugins("1"))

	failure = nil
	require.NoError(t, m.Unmount(t.Context(), point))
	require.NoError(t, f.Release(t.Context(), "1"))
	require.NoDirExists(t, f.Pod("1"))
}

func TestListingFails(t *testing.T) {
	f := newFolders(t, Config{})
	require.NoError(t, os.WriteFile(f.cfg.Root, nil, 0o600))
	_, err := f.Leftovers(context.Background())
	require.Error(t, err)
}
