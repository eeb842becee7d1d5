package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMounts(t *testing.T) {
	below, err := currentMounts("/proc")
	require.NoError(t, err)
	require.Contains(t, below, "/proc")

	file := filepath.Join(t.TempDir(), "mountinfo")
	require.NoError(t, os.WriteFile(file, []byte("22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n"+
		"40 22 0:30 / / rw - overlay overlay rw,upperdir=/tmp/pwtb-0a1b2c/v1/fs\n41 40 0:31 / /proc rw - proc proc rw\n"), 0o600))
	root, err := rootMount(file)
	require.NoError(t, err)
	require.Contains(t, root, "upperdir=/tmp/pwtb-0a1b2c/v1/fs")
	_, err = rootMount(file + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestRemoveTreeWithoutMounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
	require.NoError(t, removeTree(dir))
	require.NoDirExists(t, dir)
	require.NoError(t, removeTree(dir))
	require.ErrorContains(t, removeTree("/proc"), "contains a mount")
}

func TestContainerIDs(t *testing.T) {
	dir := t.TempDir()
	other := strings.Repeat("e", 64)
	for _, p := range []string{
		"v1/root/io.containerd.grpc.v1.cri/sandboxes/" + testContainer,
		"v1/state/io.containerd.runtime.v2.task/k8s.io/" + testContainer,
		"v2/state/io.containerd.runtime.v2.task/k8s.io/" + other,
		"v2/state/io.containerd.runtime.v2.task/k8s.io/short",
		"v2/root/io.containerd.snapshotter.v1.overlayfs/snapshots/" + strings.Repeat("d", 64),
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, p), 0o755))
	}
	require.ElementsMatch(t, []string{testContainer, other}, containerIDs(dir))
}

func TestShimSockets(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"v1/state/io.containerd.runtime.v2.task/k8s.io/a/address":        "unix:///run/containerd/s/one",
		"v1/state/io.containerd.runtime.v2.task/k8s.io/b/address":        "unix:///run/containerd/s/one",
		"v2/state/io.containerd.runtime.v2.task/k8s.io/c/bootstrap.json": `{"version":3,"address":"unix:///run/containerd/s/two","protocol":"ttrpc"}`,
		"v2/state/io.containerd.runtime.v2.task/k8s.io/d/bootstrap.json": `{"version":`,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	require.ElementsMatch(t, []string{"/run/containerd/s/one", "/run/containerd/s/two"}, shimSockets(dir))
	for _, bad := range []string{"", "unix:///etc/passwd", "unix:///run/containerd/s/../../../etc/passwd", `{"address":"/etc/passwd"}`} {
		require.Empty(t, shimSocket([]byte(bad)), bad)
	}
}

func TestCgroups(t *testing.T) {
	root := t.TempDir()
	id, foreign := testContainer, strings.Repeat("f", 64)
	for _, dir := range []string{
		"cpu/k8s.io/" + id + "/nested", "cpu/kubepods/burstable/podA/" + id, "cpu/kubepods/burstable/podB",
		"unified/kubepods.slice/kubepods-podC.slice/cri-containerd-" + id + ".scope",
		"cpu/kubepods/burstable/podD/" + foreign, "cpu/user.slice",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	below := func(dirs []string) (out []string) {
		for _, dir := range dirs {
			out = append(out, strings.TrimPrefix(dir, root+"/"))
		}
		return out
	}
	dirs := cgroupDirs(root)
	own := ownCgroups(dirs, []string{id})
	require.ElementsMatch(t, []string{
		"cpu/k8s.io/" + id, "cpu/k8s.io/" + id + "/nested", "cpu/kubepods/burstable/podA/" + id,
		"unified/kubepods.slice/kubepods-podC.slice/cri-containerd-" + id + ".scope",
	}, below(own))
	require.ElementsMatch(t, []string{
		"cpu/k8s.io/" + id, "cpu/kubepods/burstable/podA", "unified/kubepods.slice/kubepods-podC.slice",
	}, below(podLevel(own)))

	require.NoError(t, removeCgroups(own))
	require.NoError(t, removeCgroups(own)) // repeats a clean-up that was interrupted
	require.NoDirExists(t, filepath.Join(root, "cpu/k8s.io", id))

	before := []string{filepath.Join(root, "cpu/kubepods")} // the machine has another kubelet
	require.Equal(t, []string{
		"unified/kubepods.slice/kubepods-podC.slice", "unified/kubepods.slice", "cpu/k8s.io",
	}, below(emptiedParents(cgroupDirs(root), before)))
	require.Len(t, emptiedParents(cgroupDirs(root), nil), 3+6)
}

const natTable = `# Generated
*nat
:PREROUTING ACCEPT [0:0]
:CNI-DN-aaa - [0:0]
:CNI-DN-bbb - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A CNI-DN-aaa -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.64.0.2:80
-A CNI-DN-bbb -p tcp -m tcp --dport 81 -j DNAT --to-destination 10.64.9.2:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"podwright-0a1b2c-v1\" id: \"x\"" -m multiport --dports 80 -j CNI-DN-aaa
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"podwright-ffffff-v1\" id: \"y\"" -m multiport --dports 81 -j CNI-DN-bbb
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
COMMIT
`

func TestNATCleanup(t *testing.T) {
	ours := []string{"podwright-0a1b2c-v1", "podwright-0a1b2c-v2"}
	ourRule := `-D CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"podwright-0a1b2c-v1\" id: \"x\"" -m multiport --dports 80 -j CNI-DN-aaa`
	require.Equal(t, "*nat\n-F CNI-DN-aaa\n"+ourRule+"\n-X CNI-DN-aaa\nCOMMIT\n", natCleanup(natTable, ours, nil))

	// Another network still needs the shared chain. The machine's own chains stay.
	require.Equal(t, "*nat\n-F CNI-DN-aaa\n-F CNI-HOSTPORT-SETMARK\n"+ourRule+"\n-X CNI-DN-aaa\n-X CNI-HOSTPORT-SETMARK\nCOMMIT\n",
		natCleanup(natTable, ours, []string{}))

	both := append(ours, "podwright-ffffff-v1")
	all := natCleanup(natTable, both, []string{"CNI-HOSTPORT-SETMARK"})
	require.Contains(t, all, "-D PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT\n")
	require.Contains(t, all, "-X CNI-HOSTPORT-DNAT\n")
	require.NotContains(t, all, "SETMARK")
	require.NotContains(t, all, "DOCKER")

	require.Empty(t, natCleanup("", ours, []string{}))
	require.Equal(t, []string{"PREROUTING", "CNI-DN-aaa", "CNI-DN-bbb", "CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-SETMARK", "DOCKER"}, chains(natTable))
}
