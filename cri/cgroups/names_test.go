package cgroups

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const uid = "3f1c0f4e-0001-4a11-9c8d-5b3a5b6e7f00"

func podOf(class v1.PodQOSClass) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: v1.PodStatus{QOSClass: class}}
}

// N21: a BestEffort pod is below besteffort. In systemd's names the UID has underscores.
func TestNames(t *testing.T) {
	flat := strings.ReplaceAll(uid, "-", "_")
	for _, test := range []struct {
		root     string
		class    v1.PodQOSClass
		cgroupfs string
		systemd  string
	}{
		{"", v1.PodQOSGuaranteed, "/kubepods/pod" + uid, "/kubepods.slice/kubepods-pod" + flat + ".slice"},
		{"/", v1.PodQOSBurstable, "/kubepods/burstable/pod" + uid, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + flat + ".slice"},
		{"/", v1.PodQOSBestEffort, "/kubepods/besteffort/pod" + uid, "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + flat + ".slice"},
		{
			"/edge/agent-1", v1.PodQOSBurstable, "/edge/agent-1/kubepods/burstable/pod" + uid,
			"/edge.slice/edge-agent_1.slice/edge-agent_1-kubepods.slice/edge-agent_1-kubepods-burstable.slice/edge-agent_1-kubepods-burstable-pod" + flat + ".slice",
		},
	} {
		for driver, want := range map[Driver]string{Cgroupfs: test.cgroupfs, Systemd: test.systemd} {
			tree, err := NewTree(driver, test.root)
			require.NoError(t, err)
			name := tree.Pod(podOf(test.class))
			require.Equal(t, want, tree.Path(name))
			back, err := driver.Parse(want)
			require.NoError(t, err)
			require.Equal(t, name, back)
			got, class, ok := tree.PodOf(back)
			require.True(t, ok)
			require.Equal(t, types.UID(uid), got)
			require.Equal(t, test.class, class)
		}
	}
}

func TestNonPodNames(t *testing.T) {
	tree, err := NewTree(Cgroupfs, "")
	require.NoError(t, err)
	for _, path := range []string{
		"/", "/kubepods", "/kubepods/burstable", "/kubepods/pod", "/kubepods/guaranteed/podx", "/podx",
		"/kubepods/burstable/podx/container", "/other/podx", "/kubepods/burstable/besteffort/podx",
	} {
		name, err := Cgroupfs.Parse(path)
		require.NoError(t, err)
		_, _, ok := tree.PodOf(name)
		require.False(t, ok, path)
	}
}

func TestInvalidNames(t *testing.T) {
	for driver, paths := range map[Driver][]string{
		Cgroupfs: {"", "kubepods", "/kubepods/", "/a/../b", "//a"},
		Systemd:  {"", "kubepods.slice", "/kubepods", "/.slice", "/a--b.slice", "/-a.slice"},
	} {
		for _, path := range paths {
			_, err := driver.Parse(path)
			require.ErrorIs(t, err, ErrName, path)
		}
	}
	_, err := NewTree(Systemd, "/my_root")
	require.ErrorIs(t, err, ErrName)
	tree, err := NewTree(Cgroupfs, "/my_root")
	require.NoError(t, err, "that is systemd's rule alone")
	require.Equal(t, "/my_root/kubepods", tree.Path(tree.Pods()))
	_, err = NewTree("docker", "/")
	require.ErrorContains(t, err, `driver "docker" is neither "cgroupfs" nor "systemd"`)
}

func TestUnit(t *testing.T) {
	require.Equal(t, "kubepods-burstable.slice", Systemd.Unit(Name{"kubepods", "burstable"}))
	require.Equal(t, "/", Systemd.Path(nil))
	require.Equal(t, "/", Cgroupfs.Path(nil))
	tree, err := NewTree(Systemd, "/a")
	require.NoError(t, err)
	require.Equal(t, Name{"a"}, tree.Root())
	require.Equal(t, Systemd, tree.Driver())
}

// Path restores each path that Parse accepts.
func FuzzParse(f *testing.F) {
	f.Add("/kubepods/burstable/podx")
	f.Add("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice")
	f.Fuzz(func(t *testing.T, path string) {
		if n, err := Cgroupfs.Parse(path); err == nil {
			require.Equal(t, path, Cgroupfs.Path(n))
		}
		n, err := Systemd.Parse(path)
		if err != nil || strings.Contains(path, "/.") {
			return
		}
		again, err := Systemd.Parse(Systemd.Path(n))
		require.NoError(t, err)
		require.Equal(t, n, again)
	})
}
