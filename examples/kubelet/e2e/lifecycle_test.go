package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
)

// lifePod has what a static pod uses: two containers, the host's network, a
// folder of the host, an environment, and limits.
func lifePod(image, folder string) *v1.Pod {
	writer := shell("writer", image, `echo "$GREETING" > /data/from-writer; echo 'args: $(GREETING) $(UNKNOWN)'; echo problem >&2`+untilTerm)
	writer.Env = []v1.EnvVar{
		{Name: "A", Value: "hello"},
		{Name: "POD", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "GREETING", Value: "$(A) $(POD) $$(A)"},
	}
	writer.Resources = v1.ResourceRequirements{
		Requests: v1.ResourceList{"cpu": resource.MustParse("50m"), "memory": resource.MustParse("16Mi")},
		Limits:   v1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("32Mi")},
	}
	writer.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	reader := shell("reader", image, `if echo x 2>/dev/null > /ro/refused; then echo written; else echo refused; fi`+untilTerm)
	reader.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/ro", ReadOnly: true}}

	pod := newPod("life", writer, reader)
	pod.Labels = map[string]string{"app": "life"}
	pod.Annotations = map[string]string{"example.org/note": "kept"}
	kind := v1.HostPathDirectoryOrCreate
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		HostPath: &v1.HostPathVolumeSource{Path: folder, Type: &kind},
	}}}
	return pod
}

// What a manifest asks for is what runs, as the runtime, the folders and the
// container itself see it.
func TestLifecycle(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		folder := filepath.Join(s.dir, "data")
		s.place(t, "life.yaml", lifePod(s.images.Busybox, folder))
		pod := s.running(t, "life")
		require.True(t, pod.Spec.HostNetwork)

		wait(t, 10*time.Second, "the file of the container is on the host", func() error {
			data, err := os.ReadFile(filepath.Join(folder, "from-writer"))
			if want := "hello life-" + s.node + " $(A)\n"; err == nil && string(data) != want {
				err = fmt.Errorf("have %q, want %q", data, want)
			}
			return err
		})
		writer := s.checkContainer(t, pod, "writer", "stdout F args: hello life-"+s.node+" $(A) $(UNKNOWN)", "stderr F problem")
		s.checkContainer(t, pod, "reader", "stdout F refused")
		require.NoFileExists(t, filepath.Join(folder, "refused"))
		s.checkResources(t, writer)
		s.checkSandbox(t, pod)
	})
}

// checkContainer compares a container with cri.md, section 2, and waits for the
// lines in its log.
func (s *scene) checkContainer(t *testing.T, pod *v1.Pod, name string, lines ...string) *runtimeapi.ContainerStatus {
	t.Helper()
	_, reported, err := s.container("life", name)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(reported.ContainerID, "containerd://"), reported.ContainerID)
	require.NotNil(t, reported.Started)
	require.True(t, reported.Ready)
	c := s.inspect(t, reported.ContainerID)

	require.Equal(t, map[string]string{
		labels.PodName:       "life-" + s.node,
		labels.PodNamespace:  "default",
		labels.PodUID:        string(pod.UID),
		labels.ContainerName: name,
	}, c.Labels)
	require.Equal(t, map[string]string{
		"io.kubernetes.container.hash":                     wantHash(name, s.images.Busybox),
		"io.kubernetes.container.restartCount":             "0",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.pod.terminationGracePeriod":         "2",
	}, c.Annotations)
	require.Equal(t, name, c.Metadata.Name)
	require.Zero(t, c.Metadata.Attempt)

	require.Equal(t, filepath.Join(s.logs, "default_life-"+s.node+"_"+string(pod.UID), name, "0.log"), c.LogPath)
	s.checkLog(t, c, lines)
	target, err := filepath.EvalSymlinks(s.link("life", name, c.Id))
	require.NoError(t, err)
	want, err := filepath.EvalSymlinks(c.LogPath)
	require.NoError(t, err)
	require.Equal(t, want, target)
	return c
}

// wantHash is the recipe of cri.md, section 2, written once more.
func wantHash(name, image string) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "([]uint8)%v", []byte(fmt.Sprintf(`{"image":%q,"name":%q}`, image, name)))
	return fmt.Sprintf("%x", uint64(h.Sum32()))
}

var logLine = regexp.MustCompile(`^(\S+) (stdout|stderr) [FP] .*$`)

func (s *scene) checkLog(t *testing.T, c *runtimeapi.ContainerStatus, lines []string) {
	t.Helper()
	wait(t, 10*time.Second, "log of "+c.Metadata.Name, func() error {
		data, err := os.ReadFile(c.LogPath)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if !strings.Contains(string(data), line+"\n") {
				return fmt.Errorf("no %q in %q", line, data)
			}
		}
		for line := range strings.Lines(string(data)) {
			m := logLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if m == nil {
				return fmt.Errorf("%q is not in the format of CRI", line)
			}
			if _, err := time.Parse(time.RFC3339Nano, m[1]); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkResources looks into the specification that the low-level runtime got;
// containerd 2 reports it in the status, too.
func (s *scene) checkResources(t *testing.T, c *runtimeapi.ContainerStatus) {
	t.Helper()
	if s.runtime.Name != "containerd-v1" {
		linux := c.GetResources().GetLinux()
		require.EqualValues(t, 100_000, linux.GetCpuPeriod())
		require.EqualValues(t, 10_000, linux.GetCpuQuota())
		require.EqualValues(t, 51, linux.GetCpuShares())
		require.EqualValues(t, 32<<20, linux.GetMemoryLimitInBytes())
	}
	resp, err := s.cri.ContainerStatus(context.Background(), c.Id, true)
	require.NoError(t, err)
	var info struct {
		RuntimeSpec struct {
			Linux struct {
				Resources struct {
					Memory struct{ Limit int64 }
					CPU    struct {
						Shares, Period uint64
						Quota          int64
					}
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(resp.Info["info"]), &info))
	got := info.RuntimeSpec.Linux.Resources
	require.EqualValues(t, 32<<20, got.Memory.Limit)
	require.EqualValues(t, 51, got.CPU.Shares)
	require.EqualValues(t, 100_000, got.CPU.Period)
	require.EqualValues(t, 10_000, got.CPU.Quota)
}

func (s *scene) checkSandbox(t *testing.T, pod *v1.Pod) {
	t.Helper()
	w := s.see(t).of("life")
	require.Len(t, w.sandboxes, 1)
	require.Len(t, w.containers, 2)
	box := w.sandboxes[0]
	require.Equal(t, &runtimeapi.PodSandboxMetadata{Name: "life-" + s.node, Namespace: "default", Uid: string(pod.UID)}, box.Metadata)
	require.Equal(t, map[string]string{
		"app": "life", labels.PodName: "life-" + s.node, labels.PodNamespace: "default", labels.PodUID: string(pod.UID),
	}, box.Labels)
	require.Equal(t, "kept", box.Annotations["example.org/note"])
	require.Equal(t, "file", box.Annotations["kubernetes.io/config.source"])
	status, err := s.cri.PodSandboxStatus(context.Background(), box.Id, false)
	require.NoError(t, err)
	require.Equal(t, runtimeapi.NamespaceMode_NODE, status.Status.Linux.Namespaces.Options.Network)
	require.DirExists(t, filepath.Join(s.root, "pods", string(pod.UID)))
}
