package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// C17: the vectors of the kubelet's hash.
func TestHashVectors(t *testing.T) {
	for want, c := range map[string]v1.Container{
		"8e45cbd0": {Image: "foo/image:v1", Name: "test_container"},
		"5264866e": {Image: "busybox", Name: "a"},
		"4377ccae": {Image: "registry.k8s.io/pause:3.10", Name: "c1"},
	} {
		require.Equal(t, want, formatHash(Hash(&c)))
		require.Equal(t, Hash(&c), parseHash(want))
		c.Env = []v1.EnvVar{{Name: "X"}}
		c.ReadinessProbe = &v1.Probe{}
		require.Equal(t, want, formatHash(Hash(&c)))
	}
	require.Zero(t, parseHash("no hash"))
}

func TestLabels(t *testing.T) {
	pod := testPod("a")
	pod.Labels[LabelPodUID] = "forged"
	require.Equal(t, map[string]string{
		"app": "web", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": "0d1e",
	}, sandboxLabels(pod))
	require.Equal(t, map[string]string{
		"io.kubernetes.container.name": "a", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": "0d1e",
	}, containerLabels(pod, &pod.Spec.Containers[0]))
	require.Equal(t, "forged", pod.Labels[LabelPodUID], "the pod is not changed")
}

func TestAnnotations(t *testing.T) {
	pod := testPod("a")
	pod.DeletionGracePeriodSeconds = ptr(int64(7))
	c := &pod.Spec.Containers[0]
	c.Ports = []v1.ContainerPort{{ContainerPort: 80, Protocol: v1.ProtocolTCP}}
	c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}}}
	got, err := containerAnnotations(pod, c, 4)
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"io.kubernetes.container.hash":                     formatHash(Hash(c)),
		"io.kubernetes.container.restartCount":             "4",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.pod.deletionGracePeriod":            "7",
		"io.kubernetes.pod.terminationGracePeriod":         "30",
		"io.kubernetes.container.preStopHandler":           `{"sleep":{"seconds":3}}`,
		"io.kubernetes.container.ports":                    `[{"containerPort":80,"protocol":"TCP"}]`,
	}, got)
	got, err = containerAnnotations(&v1.Pod{}, &v1.Container{}, 0)
	require.NoError(t, err)
	require.Len(t, got, 4, "what is not set is not written")
}

func TestLogPaths(t *testing.T) {
	require.Equal(t, "/var/log/pods/shop_web_0d1e", LogDir("/var/log/pods", "shop", "web", "0d1e"))
	require.Equal(t, "a/3.log", relativeLogPath("a", 3))
	uid, ok := uidOfLogDir("shop_web_0d1e")
	require.True(t, ok)
	require.EqualValues(t, "0d1e", uid)
	for _, bad := range []string{"", "nothing", "shop_web_"} {
		_, ok := uidOfLogDir(bad)
		require.False(t, ok, bad)
	}
}

func TestLinkNames(t *testing.T) {
	p := podIdentity{Name: "web", Namespace: "shop"}
	name := linkName(p, "a", "0123456789abcdef")
	require.Equal(t, "web_shop_a-0123456789abcdef.log", name)
	id, ok := idOfLink(name)
	require.True(t, ok)
	require.Equal(t, "0123456789abcdef", id)
	p.Name = strings.Repeat("x", 253)
	name = linkName(p, "a", "0123456789abcdef")
	require.Len(t, name, 255)
	require.True(t, strings.HasSuffix(name, ".log"))
	for _, bad := range []string{"web-0123.log", "web-0123456789"} {
		_, ok := idOfLink(bad)
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
		n, err := restartsInLogDir(sub)
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, 0, count())
	require.EqualValues(t, 1, count("0.log"))
	require.EqualValues(t, 2, count("0.log", "1.log.20240102-030405.gz"))
	require.EqualValues(t, 11, count("9.log", "10.log"))
	require.EqualValues(t, 0, count("x.log", "1.logs", "log", "-3.log", "99999999999.log", "2147483647.log"))
	n, err := restartsInLogDir(filepath.Join(dir, "missing"))
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
