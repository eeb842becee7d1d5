package projected_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/configmap"
	"github.com/podwright/podwright/volume/content"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/internal/testbacking"
	"github.com/podwright/podwright/volume/objects"
	"github.com/podwright/podwright/volume/projected"
	"github.com/podwright/podwright/volume/secret"
)

// node has all plugins whose content the agent makes, on the plugin for emptyDir volumes.
type node struct {
	objects *objects.Memory
	plugins map[string]volume.Plugin
}

func newNode(t testing.TB) node {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	n := node{newRoom(t).objects, map[string]volume.Plugin{}}
	empty := emptydir.New(emptydir.Config{})
	volumes, err := content.New(content.Config{Backing: empty})
	require.NoError(t, err)
	c, err := configmap.New(configmap.Config{Volumes: volumes, ConfigMaps: n.objects})
	require.NoError(t, err)
	s, err := secret.New(secret.Config{Volumes: volumes, Secrets: n.objects})
	require.NoError(t, err)
	pr, err := projected.New(projected.Config{Volumes: volumes, ConfigMaps: n.objects, Secrets: n.objects, Tokens: n.objects})
	require.NoError(t, err)
	for _, plugin := range []volume.Plugin{empty, c, s, pr} {
		n.plugins[plugin.Name()] = plugin
	}
	return n
}

func (n node) mount(t testing.TB, m volume.Mount, plugin string) error {
	_, err := n.plugins[plugin].Mount(t.Context(), m)
	return err
}

func (n node) unmount(t testing.TB, m volume.Mount, plugin string) {
	require.NoError(t, n.plugins[plugin].Unmount(t.Context(), volume.Unmount{Pod: m.Pod.UID, Name: m.Spec.Name, Dir: m.Dir, StateDir: m.StateDir}))
	require.NoDirExists(t, m.Dir)
}

func onTmpfs(t testing.TB, dir string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if errors.Is(err, unix.ENOENT) {
		return false
	}
	require.NoError(t, err)
	return st.Type == unix.TMPFS_MAGIC
}

// V7, V11: on a real tmpfs, of which nothing is left in the end.
func TestOnTmpfs(t *testing.T) {
	n := newNode(t)
	m := testbacking.MountOf(t, projected.Name, pod, "v", projection(fromConfigMap, fromAccount))
	m.FSGroup, m.RunAsUser, m.Inside = p(int64(2000)), p(int64(7)), []string{"in/side"}
	require.NoError(t, n.mount(t, m, projected.Name))
	require.True(t, onTmpfs(t, m.Dir))
	require.FileExists(t, filepath.Join(filepath.Dir(filepath.Dir(m.StateDir)), "kubernetes.io~empty-dir", "wrapped_v", "ready"))
	require.DirExists(t, filepath.Join(m.Dir, "in/side"))
	require.Equal(t, "0640 t1", testbacking.Files(t, m.Dir)["token"])
	m.Again = true
	require.NoError(t, n.mount(t, m, projected.Name))
	require.Equal(t, "0640 t2", testbacking.Files(t, m.Dir)["token"])
	// Somebody has unmounted it.
	require.NoError(t, unix.Unmount(m.Dir, 0))
	require.NoError(t, n.mount(t, m, projected.Name))
	require.True(t, onTmpfs(t, m.Dir))
	n.unmount(t, m, projected.Name)

	// A first mount that fails when all is mounted.
	m.Again, m.FSGroup = false, p(int64(-1))
	err := n.mount(t, m, projected.Name)
	require.ErrorContains(t, err, "-1 is no group")
	require.NotErrorIs(t, err, volume.ErrUncertain)
	require.NoDirExists(t, m.Dir)
}

// A pod with five volumes: two config maps, a secret, a projected and an emptyDir one.
func BenchmarkFiveVolumes(b *testing.B) {
	n := newNode(b)
	mode := p(int32(0o644))
	configMap := v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ref("n"), DefaultMode: mode}}
	kinds := []struct {
		plugin string
		source v1.VolumeSource
	}{
		{configmap.Name, configMap}, {configmap.Name, configMap},
		{secret.Name, v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "n", DefaultMode: mode}}},
		{projected.Name, projection(fromConfigMap, fromSecret, fromPod, fromAccount)},
		{emptydir.Name, v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
	}
	i := 0
	for b.Loop() {
		i++
		own := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: fmt.Sprint("p", i), Namespace: "ns"}}
		b.StopTimer()
		mounts := make([]volume.Mount, len(kinds))
		for k, kind := range kinds {
			mounts[k] = testbacking.MountOf(b, kind.plugin, own, fmt.Sprint("v", k), kind.source)
		}
		b.StartTimer()
		var wg sync.WaitGroup
		for k, kind := range kinds {
			wg.Go(func() {
				if err := n.mount(b, mounts[k], kind.plugin); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		for k, kind := range kinds {
			n.unmount(b, mounts[k], kind.plugin)
		}
		b.StartTimer()
	}
}

// The contract, on real file systems in memory.
func TestConformanceOnTmpfs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	conform(t, func() volume.Plugin { return emptydir.New(emptydir.Config{}) })
}
