package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/volume/objects"
)

// configured is a manifest of a pod with a config map as files and in its environment.
const configured = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostNetwork: true, volumes: [{name: v, configMap: {name: late}}],
  containers: [{name: c, image: busybox, envFrom: [{configMapRef: {name: late}}], volumeMounts: [{name: v, mountPath: /v}]}]}}`

// put writes an object.
func put(t *testing.T, dir, file, text string) {
	t.Helper()
	path := filepath.Join(dir, file)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// A pod says which volume it waits for and why, and runs once the object is there. A
// file that is no such object is named.
func TestPodsWaitForObjects(t *testing.T) {
	n := newPodsNode(t, fake.Config{})
	n.cfg.Flags.ObjectsDir = filepath.Join(n.dir, "objects")
	put(t, n.cfg.Kubelet.StaticPodPath, "p.yaml", configured)
	put(t, n.cfg.Flags.ObjectsDir, "configmaps/default/bad.yaml", "kind: Secret")
	n.during(t, func(a *Agent) {
		require.Eventually(t, func() bool {
			r := a.Report()
			return len(r.Objects) == 1 && len(r.Pods) == 1 && len(r.Pods[0].Volumes) == 1 && r.Pods[0].Volumes[0].NextTry != nil
		}, 10*time.Second, 5*time.Millisecond)
		r := a.Report()
		require.Contains(t, r.Objects[0].Path, "bad.yaml")
		require.Contains(t, r.Pods[0].Volumes[0].LastError, `configmap "default/late" not found`)
		require.False(t, r.Pods[0].Volumes[0].Ready)
		for _, check := range a.Health() {
			require.True(t, check.OK, check)
		}
		put(t, n.cfg.Flags.ObjectsDir, "configmaps/default/late.yaml", "{apiVersion: v1, kind: ConfigMap, data: {color: red}}")
		require.Eventually(t, func() bool { return runs(a) }, 10*time.Second, 5*time.Millisecond)
		r = a.Report()
		require.True(t, r.Pods[0].Volumes[0].Ready)
		require.Empty(t, r.Pods[0].Volumes[0].LastError)
	})
}

// Without a folder of objects a pod that refers to one is refused, by the field.
func TestNoFolderOfObjects(t *testing.T) {
	n := newPodsNode(t, fake.Config{})
	put(t, n.cfg.Kubelet.StaticPodPath, "p.yaml", configured)
	n.during(t, func(a *Agent) {
		require.Eventually(t, func() bool { return len(a.Report().Manifests) == 1 }, 10*time.Second, 5*time.Millisecond)
		message := a.Report().Manifests[0].Message
		require.Contains(t, message, "spec.volumes[0].configMap: Forbidden: a static pod must not refer to a ConfigMap")
		require.Contains(t, message, "spec.containers[0].envFrom[0].configMapRef")
	})
}

// What was mounted for an agent that had objects is unmounted by one that has none.
func TestObjectsAreTakenAway(t *testing.T) {
	n := newPodsNode(t, fake.Config{})
	n.cfg.Flags.ObjectsDir = filepath.Join(n.dir, "objects")
	put(t, n.cfg.Kubelet.StaticPodPath, "p.yaml", configured)
	put(t, n.cfg.Flags.ObjectsDir, "configmaps/default/late.yaml", "{apiVersion: v1, kind: ConfigMap, data: {color: red}}")
	n.during(t, func(a *Agent) {
		require.Eventually(t, func() bool { return runs(a) }, 10*time.Second, 5*time.Millisecond)
	})
	volumes, err := filepath.Glob(filepath.Join(n.cfg.Flags.RootDir, "pods/*/volumes/kubernetes.io~configmap/v/color"))
	require.NoError(t, err)
	require.Len(t, volumes, 1)
	n.cfg.Flags.ObjectsDir = ""
	require.NoError(t, os.Remove(filepath.Join(n.cfg.Kubelet.StaticPodPath, "p.yaml")))
	n.during(t, func(a *Agent) {
		require.Eventually(t, func() bool {
			left, err := os.ReadDir(filepath.Join(n.cfg.Flags.RootDir, "pods"))
			return err == nil && len(left) == 0
		}, 20*time.Second, 5*time.Millisecond)
	})
}

// Registries are shown what the secrets of the folder say.
func TestPullSecretsOfObjects(t *testing.T) {
	g, err := newGround(configOf(t.TempDir(), nil), folders{root: t.TempDir()}, noState)
	require.NoError(t, err)
	secrets := &objects.Memory{}
	auth := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	secrets.PutSecret(&v1.Secret{
		ObjectMeta: podOf("1", "").ObjectMeta, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example":{"auth":"` + auth + `"}}}`)},
	})
	source, err := g.credentials(named{lookup: secrets})
	require.NoError(t, err)
	pod := podOf("1", v1.RestartPolicyAlways, "a")
	pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: pod.Name}}
	found, err := source.Credentials(t.Context(), pod, "registry.example/team/app")
	require.NoError(t, err)
	require.NotEmpty(t, found)
}

// Containers that are processes of the host see its files and nothing else.
func TestMountsOfTheEmbeddedRuntime(t *testing.T) {
	empty := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
	host := v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/etc/"}}
	for _, test := range []struct {
		name   string
		source v1.VolumeSource
		mount  v1.VolumeMount
		seen   bool
	}{
		{"a path of the host", host, v1.VolumeMount{MountPath: "/etc"}, true},
		{"a part of it", host, v1.VolumeMount{MountPath: "/etc/ssl", SubPath: "ssl"}, true},
		{"elsewhere", host, v1.VolumeMount{MountPath: "/config"}, false},
		{"a part of it elsewhere", host, v1.VolumeMount{MountPath: "/etc", SubPath: "ssl"}, false},
		{"an unknown part of it", host, v1.VolumeMount{MountPath: "/etc", SubPathExpr: "$(A)"}, false},
		{"a folder of the pod", empty, v1.VolumeMount{MountPath: "/etc"}, false},
	} {
		pod := podOf("1", v1.RestartPolicyAlways, "a", "b")
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: test.source}}
		test.mount.Name = "v"
		pod.Spec.InitContainers = []v1.Container{{Name: "i", VolumeMounts: []v1.VolumeMount{test.mount}}}
		pod.Spec.Containers[1].VolumeMounts = []v1.VolumeMount{test.mount}
		cfg := configOf(t.TempDir(), nil)
		g := &ground{cfg: cfg}
		require.Empty(t, g.unsupported(pod), "another runtime: %s", test.name)
		g.cfg.Kubelet.ContainerRuntimeEndpoint = config.Embedded
		errs := g.unsupported(pod)
		if test.seen {
			require.Empty(t, errs, test.name)
			continue
		}
		require.Len(t, errs, 2, test.name)
		require.True(t, strings.HasPrefix(errs[0].Error(), "spec.initContainers[0].volumeMounts[0]: "), errs[0])
		require.True(t, strings.HasPrefix(errs[1].Error(), "spec.containers[1].volumeMounts[0]: "), errs[1])
	}
}

// Objects are read before a runtime is connected, and what is wrong with them is shown.
func TestObjectsAreReadWithoutARuntime(t *testing.T) {
	cfg := configOf(t.TempDir(), func(ctx context.Context) (*Connection, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	cfg.Flags.ObjectsDir = t.TempDir()
	put(t, cfg.Flags.ObjectsDir, "configmaps/default/bad.yaml", "kind: Secret")
	a, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	require.Eventually(t, func() bool { return len(a.Report().Objects) == 1 }, 10*time.Second, 5*time.Millisecond)
	put(t, cfg.Flags.ObjectsDir, "configmaps/default/bad.yaml", "{apiVersion: v1, kind: ConfigMap}")
	require.Eventually(t, func() bool { return len(a.Report().Objects) == 0 }, 10*time.Second, 5*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}

// V29: of a pod that nobody knows, what is in a folder that may be a volume stays, and
// the log names it; what holds nothing goes.
func TestOrphanedVolumesAreKept(t *testing.T) {
	n := newPodsNode(t, fake.Config{})
	volumes := filepath.Join(n.cfg.Flags.RootDir, "pods/orphan/volumes")
	precious := filepath.Join(volumes, "example.com~gone/full/precious")
	empty := filepath.Join(volumes, "example.com~gone/empty")
	for _, dir := range []string{filepath.Dir(precious), empty, filepath.Join(n.cfg.Flags.RootDir, "pods/other/volumes/example.com~gone/v")} {
		require.NoError(t, os.MkdirAll(dir, 0o750))
	}
	require.NoError(t, os.WriteFile(precious, nil, 0o600))
	put(t, n.cfg.Kubelet.StaticPodPath, "p.yaml", manifest)
	gone := func(path string) bool { _, err := os.Lstat(path); return errors.Is(err, fs.ErrNotExist) }
	n.during(t, func(a *Agent) {
		require.Eventually(t, func() bool {
			return runs(a) && gone(empty) && gone(filepath.Join(n.cfg.Flags.RootDir, "pods/other"))
		}, 20*time.Second, 5*time.Millisecond)
		require.Never(t, func() bool { return gone(precious) }, 5*time.Second, 50*time.Millisecond) // two rounds of housekeeping
	})
	require.NoError(t, os.Remove(precious))
	n.during(t, func(*Agent) {
		require.Eventually(t, func() bool { return gone(filepath.Join(n.cfg.Flags.RootDir, "pods/orphan")) }, 20*time.Second, 5*time.Millisecond)
	})
}

// File systems count what is in volumes if that is asked for.
func TestFSQuotaMonitoring(t *testing.T) {
	g := &ground{}
	require.Nil(t, g.track())
	g.cfg.Kubelet.FeatureGates = map[string]bool{config.FSQuotaMonitoring: true}
	track := g.track()
	require.NotNil(t, track)
	require.ErrorIs(t, track(t.Context(), filepath.Join(t.TempDir(), "none")), os.ErrNotExist)
}

func TestFoldersOfPods(t *testing.T) {
	f := folders{root: "/var/lib/kubelet"}
	for path, own := range map[string]bool{
		"/var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/v": true, "/var/lib/kubelet/pods/u": false, "/var/lib/kubelet/pods/u2/volumes/x": false, "/data": false, "/": false, "": false,
	} {
		require.Equal(t, own, f.ofPod("u", path), path)
	}
}
