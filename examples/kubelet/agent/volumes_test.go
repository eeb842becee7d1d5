package agent

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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

// A pod reports the volume it waits for and the reason, and runs once the object exists. The report
// names files that are no such objects.
func TestPodsWaitForObjects(t *testing.T) {
	n := newPodsNode(t, fake.Config{})
	n.cfg.Flags.ObjectsDir = filepath.Join(n.dir, "objects")
	n.put(t, configured)
	put(t, n.cfg.Flags.ObjectsDir, "configmaps/default/bad.yaml", "kind: Secret")
	n.during(t, func(a *Agent) {
		soon(t, func() bool {
			r := a.Report()
			return len(r.Objects) == 1 && len(r.Pods) == 1 && len(r.Pods[0].Volumes) == 1 && r.Pods[0].Volumes[0].NextTry != nil
		})
		r := a.Report()
		require.Contains(t, r.Objects[0].Path, "bad.yaml")
		require.Contains(t, r.Pods[0].Volumes[0].LastError, `configmap "default/late" not found`)
		require.False(t, r.Pods[0].Volumes[0].Ready)
		for _, check := range a.Health() {
			require.True(t, check.OK, check)
		}
		put(t, n.cfg.Flags.ObjectsDir, "configmaps/default/late.yaml", late)
		soon(t, func() bool { return runs(a) })
		r = a.Report()
		require.True(t, r.Pods[0].Volumes[0].Ready)
		require.Empty(t, r.Pods[0].Volumes[0].LastError)
	})
}

const late = "{apiVersion: v1, kind: ConfigMap, data: {color: red}}"

// A33: without a folder of objects, a pod that references an object is rejected with the field's name.
func TestNoFolderOfObjects(t *testing.T) {
	for text, want := range map[string][]string{
		configured: {"spec.volumes[0].configMap: Forbidden: a static pod must not refer to a ConfigMap", "spec.containers[0].envFrom[0].configMapRef"},
		withCSI:    {"spec.volumes[0].csi: Forbidden: a static pod must not refer to a CSIDriver", "spec.volumes[0].csi.nodePublishSecretRef: Forbidden: a static pod must not refer to a Secret"},
	} {
		n := newPodsNode(t, fake.Config{})
		n.put(t, text)
		n.during(t, func(a *Agent) {
			soon(t, func() bool { return len(a.Report().Manifests) == 1 })
			for _, field := range want {
				require.Contains(t, a.Report().Manifests[0].Message, field)
			}
		})
	}
}

// An agent without objects unmounts the volumes of an agent that had them.
func TestObjectsAreRemoved(t *testing.T) {
	n := newPodsNode(t, fake.Config{})
	n.cfg.Flags.ObjectsDir = filepath.Join(n.dir, "objects")
	file := n.put(t, configured)
	put(t, n.cfg.Flags.ObjectsDir, "configmaps/default/late.yaml", late)
	n.during(t, func(a *Agent) { soon(t, func() bool { return runs(a) }) })
	volumes, err := filepath.Glob(filepath.Join(n.cfg.Flags.RootDir, "pods/*/volumes/kubernetes.io~configmap/v/color"))
	require.NoError(t, err)
	require.Len(t, volumes, 1)
	n.cfg.Flags.ObjectsDir = ""
	require.NoError(t, os.Remove(file))
	n.during(t, func(*Agent) { n.leavesNothing(t) })
}

func (n *podsNode) leavesNothing(t *testing.T) {
	t.Helper()
	soon(t, func() bool {
		left, err := os.ReadDir(filepath.Join(n.cfg.Flags.RootDir, "pods"))
		return err == nil && len(left) == 0
	})
}

// Registries receive the credentials in the folder's secrets.
func TestPullSecretsOfObjects(t *testing.T) {
	secrets := &objects.Memory{}
	auth := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	secrets.PutSecret(&v1.Secret{
		ObjectMeta: podOf("1", "").ObjectMeta, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example":{"auth":"` + auth + `"}}}`)},
	})
	cfg := configOf(t.TempDir(), nil)
	source, err := newCredentials(&cfg, references{lookup: secrets}, recorder{})
	require.NoError(t, err)
	pod := podOf("1", v1.RestartPolicyAlways, "a")
	pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: pod.Name}}
	found, err := source.Credentials(t.Context(), pod, "registry.example/team/app")
	require.NoError(t, err)
	require.NotEmpty(t, found)
}

// Containers of the embedded runtime, which are processes of the host, see only the host's files.
func TestMountsOfTheEmbeddedRuntime(t *testing.T) {
	empty := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
	host := v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/etc/"}}
	for name, test := range map[string]struct {
		source v1.VolumeSource
		mount  v1.VolumeMount
		seen   bool
	}{
		"a path of the host":     {host, v1.VolumeMount{MountPath: "/etc"}, true},
		"a part of it":           {host, v1.VolumeMount{MountPath: "/etc/ssl", SubPath: "ssl"}, true},
		"elsewhere":              {host, v1.VolumeMount{MountPath: "/config"}, false},
		"a part of it elsewhere": {host, v1.VolumeMount{MountPath: "/etc", SubPath: "ssl"}, false},
		"an unknown part of it":  {host, v1.VolumeMount{MountPath: "/etc", SubPathExpr: "$(A)"}, false},
		"a folder of the pod":    {empty, v1.VolumeMount{MountPath: "/etc"}, false},
	} {
		test.mount.Name = "v"
		pod := podOf("1", v1.RestartPolicyAlways, "a", "b")
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: test.source}}
		pod.Spec.InitContainers = []v1.Container{{Name: "i", VolumeMounts: []v1.VolumeMount{test.mount}}}
		pod.Spec.Containers[1].VolumeMounts = []v1.VolumeMount{test.mount}
		cfg := configOf(t.TempDir(), nil)
		require.Empty(t, cfg.unsupported(pod), "another runtime: %s", name)
		cfg.Kubelet.ContainerRuntimeEndpoint = config.Embedded
		text := fmt.Sprint(errors.Join(cfg.unsupported(pod)...))
		if test.seen {
			require.Equal(t, "<nil>", text, name)
			continue
		}
		require.Regexp(t, `^spec\.initContainers\[0]\.volumeMounts\[0]: [^\n]*\nspec\.containers\[1]\.volumeMounts\[0]: [^\n]*$`, text, name)
	}
}

// V29: in the folder of an unknown pod, folders that may be volumes stay and are logged; empty ones
// are removed.
func TestOrphanedVolumesAreKept(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		pods := filepath.Join(w.dir, "root/pods")
		precious, empty := filepath.Join(pods, "orphan/volumes/example.com~gone/full/precious"), filepath.Join(pods, "orphan/volumes/example.com~gone/empty")
		for _, dir := range []string{filepath.Dir(precious), empty, filepath.Join(pods, "other/volumes/example.com~gone/v")} {
			require.NoError(t, os.MkdirAll(dir, 0o750))
		}
		require.NoError(t, os.WriteFile(precious, nil, 0o600))
		var log lockedBuffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		w.set(podOf("1", v1.RestartPolicyAlways, "a"))
		w.startFor(time.Minute)
		require.Equal(t, map[string][]uint32{"a": {0}}, w.Running())
		require.FileExists(t, precious)
		require.NoDirExists(t, empty)
		require.NoDirExists(t, filepath.Join(pods, "other"))
		require.Positive(t, log.count(filepath.Dir(precious)))
		w.stop()
		require.NoError(t, os.Remove(precious))
		w.startFor(time.Minute)
		require.NoDirExists(t, filepath.Join(pods, "orphan"))
	})
}

// File systems count the usage of volumes if FSQuotaMonitoring is enabled.
func TestFSQuotaMonitoring(t *testing.T) {
	cfg := new(Config)
	require.Nil(t, track(cfg))
	cfg.Kubelet.FeatureGates = map[string]bool{config.FSQuotaMonitoring: true}
	found := track(cfg)
	require.NotNil(t, found)
	require.ErrorIs(t, found(t.Context(), filepath.Join(t.TempDir(), "none")), os.ErrNotExist)
}

func TestFoldersOfPods(t *testing.T) {
	f := folders{root: "/var/lib/kubelet"}
	for path, own := range map[string]bool{
		"/var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/v": true, "/var/lib/kubelet/pods/u": false, "/var/lib/kubelet/pods/u2/volumes/x": false, "/data": false, "/": false, "": false,
	} {
		require.Equal(t, own, f.ofPod("u", path), path)
	}
}
