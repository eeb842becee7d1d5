package projected

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/objects"
)

func p[T any](v T) *T { return &v }

var pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "ns"}}

const certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func projection(sources ...v1.VolumeProjection) v1.VolumeSource {
	return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultMode: p(int32(0o644)), Sources: sources}}
}

func ref(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

var (
	fromConfigMap = v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: ref("n")}}
	fromSecret    = v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: ref("n")}}
	fromPod       = v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "pod/name", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}}
	fromAccount   = v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}
	fromBundle    = v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: p("n"), Path: "ca"}}
)

type pluginFixture struct {
	objects *objects.Memory
	plugins map[string]*plugin
	plugin  *plugin // for projected volumes
	issued  int
}

// backing is the plugin for emptyDir volumes on mounts.Memory.
type backing struct {
	volume.Plugin
	mounted int
	medium  v1.StorageMedium // of the last mount
	fail    func(method string) error
}

func newBacking() *backing {
	return &backing{Plugin: emptydir.New(emptydir.Config{Mounts: &mounts.Memory{}}), fail: func(string) error { return nil }}
}

func (b *backing) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	b.mounted++
	b.medium = m.Spec.Inline.EmptyDir.Medium
	if err := b.fail("mount"); err != nil {
		return volume.Mounted{}, err
	}
	return b.Plugin.Mount(ctx, m)
}

func (b *backing) Unmount(ctx context.Context, u volume.Unmount) error {
	if err := b.fail("unmount"); err != nil {
		return err
	}
	return b.Plugin.Unmount(ctx, u)
}

func mountOf(t testing.TB, plugin string, source v1.VolumeSource) volume.Mount {
	l := volume.Layout{Root: t.TempDir()}
	m := volume.Mount{
		Pod: pod, Spec: &volume.Spec{Name: "v", Inline: &source},
		Dir: l.Volume(pod.UID, plugin, "v"), StateDir: l.State(pod.UID, plugin, "v"),
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Dir), 0o750))
	return m
}

// filesOf returns the files of a volume with their modes and contents, "0644 text".
func filesOf(t testing.TB, dir string) map[string]string {
	out := map[string]string{}
	for name, f := range seen(t, dir) {
		out[name] = fmt.Sprintf("%04o %s", f.Mode, f.Data)
	}
	return out
}

func newPluginFixture(t testing.TB) *pluginFixture { return newPluginFixtureOn(t, newBacking()) }

func newPluginFixtureOn(t testing.TB, backing volume.Plugin) *pluginFixture {
	r := &pluginFixture{objects: &objects.Memory{}, plugins: map[string]*plugin{}}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "n"}
	r.objects.PutConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "config", "b": "config"}})
	r.objects.PutSecret(&v1.Secret{ObjectMeta: meta, StringData: map[string]string{"b": "secret", "c": "secret"}})
	r.objects.PutTrustBundle("n", "", nil, certificate)
	r.objects.IssueToken = func(q objects.TokenRequest) (objects.Token, error) {
		r.issued++
		return objects.Token{Value: fmt.Sprint("t", r.issued), Expires: time.Now().Add(time.Duration(q.ExpirationSeconds) * time.Second)}, nil
	}
	tokens, err := objects.NewTokenCache(objects.TokenCacheConfig{Tokens: r.objects})
	require.NoError(t, err)
	plugins, err := New(Config{
		Backing: backing, ConfigMaps: r.objects, Secrets: r.objects, TrustBundles: r.objects, Tokens: tokens,
		Allocatable: func() v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse("3500m")} },
	})
	require.NoError(t, err)
	for _, p := range plugins {
		r.plugins[p.Name()] = p.(*plugin)
	}
	r.plugin = r.plugins[projectedName]
	return r
}

func TestAllSources(t *testing.T) {
	r := newPluginFixture(t)
	m := mountOf(t, projectedName, projection(fromConfigMap, fromSecret, fromPod, fromAccount, fromBundle))
	require.True(t, r.plugin.Supports(m.Spec))
	mounted, err := r.plugin.Mount(t.Context(), m)
	require.NoError(t, err)
	require.InDelta(t, 48*time.Minute, time.Until(mounted.RefreshAt), float64(time.Minute))
	require.Equal(t, map[string]string{
		"a": "0644 config", "b": "0644 secret", "c": "0644 secret", "pod/name": "0644 p", "token": "0644 t1", "ca": "0644 " + certificate,
	}, filesOf(t, m.Dir), "the later source wins")
	require.Len(t, r.plugin.Objects(pod, m.Spec), 4)
}

// If any source fails, no file is written, and the error contains all faults.
func TestFaults(t *testing.T) {
	r := newPluginFixture(t)
	missing := v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: ref("none")}}
	m := mountOf(t, projectedName, projection(fromConfigMap, missing, v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{}}, v1.VolumeProjection{}))
	_, err := r.plugin.Mount(t.Context(), m)
	for _, want := range []string{
		`projected.sources[1].secret: secret "ns/none" not found`,
		"projected.sources[2].podCertificate: this agent has no pod certificates", "projected.sources[3].source: no source that this agent supports",
	} {
		require.ErrorContains(t, err, want)
	}
	require.ErrorIs(t, err, volume.ErrNotFound)
	require.ErrorIs(t, err, volume.ErrTransient)
	require.NoDirExists(t, m.Dir)

	m = mountOf(t, projectedName, projection(fromConfigMap, v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "a/b"}}))
	_, err = r.plugin.Mount(t.Context(), m)
	require.ErrorContains(t, err, `path "a" is both a file and a folder of "a/b"`)
	require.NoDirExists(t, m.Dir)

	twice := v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: ref("none"), Items: []v1.KeyToPath{{Key: "k", Path: "p"}, {Key: "l", Path: "p"}}}}
	m = mountOf(t, projectedName, projection(fromConfigMap, twice))
	_, err = r.plugin.Mount(t.Context(), m)
	require.EqualError(t, err, `projected.sources[1].secret.items[1].path: "p" is also the path of projected.sources[1].secret.items[0].path`, "clashes are reported before reads")
	require.NoDirExists(t, m.Dir)

	bare, err := New(Config{Backing: newBacking()})
	require.NoError(t, err)
	m = mountOf(t, projectedName, projection(fromConfigMap, fromSecret, fromAccount, fromBundle))
	_, err = bare[3].Mount(t.Context(), m)
	require.ErrorContains(t, err, "no config maps")
	m = mountOf(t, configMapName, configMapSource())
	_, err = bare[0].Mount(t.Context(), m)
	require.EqualError(t, err, "configMap: this agent has no config maps")
	_, err = New(Config{})
	require.EqualError(t, err, "projected: Config.Backing is required")
}

// BenchmarkResync measures one sync of an unchanged volume with all sources.
func BenchmarkResync(b *testing.B) {
	r := newPluginFixture(b)
	m := mountOf(b, projectedName, projection(fromConfigMap, fromSecret, fromPod, fromAccount, fromBundle))
	for range 2 {
		_, err := r.plugin.Mount(b.Context(), m)
		require.NoError(b, err)
		time.Sleep(100 * time.Millisecond) // until the file system's clock has advanced
	}
	for b.Loop() {
		if _, err := r.plugin.Mount(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}

func onTmpfs(t testing.TB, dir string) bool {
	const tmpfs = 0x01021994 // TMPFS_MAGIC of Linux
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if errors.Is(err, unix.ENOENT) {
		return false
	}
	require.NoError(t, err)
	return st.Type == tmpfs
}

// V7, V11: a tmpfs has the tokens and is removed with the volume.
func TestOnTmpfs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	r := newPluginFixtureOn(t, emptydir.New(emptydir.Config{}))
	m := mountOf(t, projectedName, projection(fromConfigMap, fromAccount))
	m.FSGroup, m.RunAsUser, m.Inside = p(int64(2000)), p(int64(7)), []string{"in/side"}
	mount := func() {
		t.Helper()
		_, err := r.plugin.Mount(t.Context(), m)
		require.NoError(t, err)
		require.True(t, onTmpfs(t, m.Dir))
	}
	mount()
	require.FileExists(t, filepath.Join(filepath.Dir(filepath.Dir(m.StateDir)), "kubernetes.io~empty-dir", "wrapped_v", "ready"))
	require.DirExists(t, filepath.Join(m.Dir, "in/side"))
	require.Equal(t, "0640 t1", filesOf(t, m.Dir)["token"])
	info, err := os.Stat(filepath.Join(m.Dir, "token"))
	require.NoError(t, err)
	st := info.Sys().(*syscall.Stat_t)
	require.Equal(t, []uint32{7, 2000}, []uint32{st.Uid, st.Gid})
	m.Again = true
	mount()
	// A volume that was unmounted from outside is mounted again.
	require.NoError(t, unix.Unmount(m.Dir, 0))
	mount()
	require.NoError(t, r.plugin.Unmount(t.Context(), volume.Unmount{Pod: m.Pod.UID, Name: m.Spec.Name, Dir: m.Dir, StateDir: m.StateDir}))
	require.NoDirExists(t, m.Dir)

	// A first mount that fails after the mount of the tmpfs removes it.
	m.Again, m.FSGroup = false, p(int64(-1))
	_, err = r.plugin.Mount(t.Context(), m)
	require.ErrorContains(t, err, "-1 is not a valid group ID")
	require.NotErrorIs(t, err, volume.ErrUncertain)
	require.NoDirExists(t, m.Dir)
}

// The conformance suite on a real tmpfs. One kind is enough, because all kinds share the code.
func TestConformanceOnTmpfs(t *testing.T) {
	if os.Getuid() != 0 || testing.Short() {
		t.Skip("needs root, and takes seconds")
	}
	conform(t, projectedName, func() volume.Plugin { return emptydir.New(emptydir.Config{}) })
}
