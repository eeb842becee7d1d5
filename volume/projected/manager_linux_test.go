package projected_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/configmap"
	"github.com/podwright/podwright/volume/content"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/objects"
	"github.com/podwright/podwright/volume/projected"
	"github.com/podwright/podwright/volume/secret"
)

// house is a manager with plugins, on a folder of objects. What is in memory is on the
// disk of the benchmark: TMPDIR says which.
type house struct {
	*volume.Manager
	root, objects string
	mounted       chan struct{}
}

func newHouse(b *testing.B) *house {
	h := &house{root: b.TempDir(), objects: b.TempDir(), mounted: make(chan struct{}, 10_000)}
	h.write(b, "configmaps", "n", "v1\nkind: ConfigMap\ndata: {colour: c0}")
	h.write(b, "secrets", "n", "v1\nkind: Secret\nstringData: {password: x}")
	time.Sleep(100 * time.Millisecond) // a younger file may not be complete yet
	dir, err := objects.NewDir(objects.DirConfig{Path: h.objects, OnChange: func(changed []volume.Object) {
		for _, o := range changed {
			h.Changed(o)
		}
	}})
	require.NoError(b, err)
	disk := emptydir.New(emptydir.Config{Mounts: &mounts.Memory{}})
	files, err := content.New(content.Config{Backing: disk})
	require.NoError(b, err)
	plugins := []volume.Plugin{disk}
	add := func(p volume.Plugin, err error) {
		require.NoError(b, err)
		plugins = append(plugins, p)
	}
	c, err := configmap.New(configmap.Config{Volumes: files, ConfigMaps: dir})
	add(c, err)
	s, err := secret.New(secret.Config{Volumes: files, Secrets: dir})
	add(s, err)
	p, err := projected.New(projected.Config{Volumes: files, ConfigMaps: dir, Secrets: dir})
	add(p, err)
	h.Manager, err = volume.New(volume.Config{
		Plugins: plugins, Layout: volume.Layout{Root: h.root},
		Metrics: volume.Metrics{OnOperation: func(o volume.Operation) {
			if o.Name == "volume_mount" {
				h.mounted <- struct{}{}
			}
		}},
	})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run.All(ctx, h.Run, dir.Run) }()
	b.Cleanup(func() { stop(); require.NoError(b, <-done) })
	return h
}

func (h *house) write(b *testing.B, kind, name, text string) {
	file := filepath.Join(h.objects, kind, "ns", name+".yaml")
	require.NoError(b, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(b, os.WriteFile(file+"~", []byte("apiVersion: "+text+"\n"), 0o644))
	require.NoError(b, os.Rename(file+"~", file))
}

// pods prepares so many pods with these volumes.
func (h *house) pods(b *testing.B, n int, sources ...v1.VolumeSource) (pods []*v1.Pod) {
	for i := range n {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("u", i))}}
		c := v1.Container{Name: "c"}
		for k, source := range sources {
			name := fmt.Sprint("v", k)
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
		}
		pod.Spec.Containers = []v1.Container{c}
		require.NoError(b, h.Prepare(b.Context(), pod))
		pods = append(pods, pod)
	}
	for range n * len(sources) {
		<-h.mounted
	}
	return pods
}

func fromMap() v1.VolumeSource {
	return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ref("n"), DefaultMode: p(int32(0o644))}}
}

// BenchmarkChangedFileOf500Pods is from the moment when a config map's file is written
// until 500 pods have it on disk. The file is read once.
func BenchmarkChangedFileOf500Pods(b *testing.B) {
	h := newHouse(b)
	pods := h.pods(b, 500, fromMap())
	i := 0
	for b.Loop() {
		i++
		h.write(b, "configmaps", "n", fmt.Sprintf("v1\nkind: ConfigMap\ndata: {colour: c%d}", i))
		for range pods {
			<-h.mounted
		}
	}
	for _, pod := range pods {
		dir := volume.Layout{Root: h.root}.Volume(pod.UID, configmap.Name, "v0")
		data, err := os.ReadFile(filepath.Join(dir, "colour"))
		require.NoError(b, err)
		require.Equal(b, fmt.Sprint("c", i), strings.TrimSpace(string(data)))
	}
	require.Less(b, b.Elapsed()/time.Duration(b.N), time.Second)
}

// BenchmarkIdle1000Pods is a minute of 1000 pods with five volumes each: one sync of every
// pod. CPU-ms/s is what that costs of each second.
func BenchmarkIdle1000Pods(b *testing.B) {
	h := newHouse(b)
	all := projection(fromConfigMap, fromSecret, fromPod)
	pods := h.pods(b, 1000, fromMap(), fromMap(),
		v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "n", DefaultMode: p(int32(0o644))}}, all,
		v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	time.Sleep(time.Second) // until the file system's clock has moved on
	sync := func() {
		for _, pod := range pods {
			require.NoError(b, h.Prepare(b.Context(), pod))
		}
		for range 4 * len(pods) {
			<-h.mounted
		}
	}
	sync() // the first one looks at every file
	begun := used()
	for b.Loop() {
		sync()
	}
	b.ReportMetric(float64((used()-begun).Microseconds())/1000/60/float64(b.N), "CPU-ms/s")
}

func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
