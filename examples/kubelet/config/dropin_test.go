package config

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A2: the later file overrides, lists are replaced, and other files than *.conf
// are ignored with a warning.
func TestDropIns(t *testing.T) {
	dir := write(t, map[string]string{
		"kubelet.yaml":    head + "syncFrequency: 1s\nclusterDNS: [10.0.0.1]\nstaticPodPath: pods\nclusterDomain: a\nauthentication: {webhook: {cacheTTL: 1s}}",
		"d/10-a.conf":     head + "clusterDNS: [10.0.0.2, 10.0.0.3]\nregistryBurst: 3\nclusterDomain: b\nauthentication: {webhook: {cacheTTL: 2s}, anonymous: {enabled: false}}",
		"d/20-b.conf":     head + "clusterDNS: [10.0.0.4]\nregistryBurst: 4\nclusterDomain: null",
		"d/30/10-c.conf":  head + "staticPodPath: pods",
		"d/40-d.yaml":     head + "registryBurst: 5",
		"d/50-e.conf.bak": "nonsense",
	})
	c, err := FromArgs([]string{"--hostname-override=n", "--kubeconfig=/k", "--config=" + dir + "/kubelet.yaml", "--config-dir=" + dir + "/d", "--port=7"}, io.Discard)
	require.NoError(t, err)
	k := c.Kubelet
	require.Equal(t, []string{"10.0.0.4"}, k.ClusterDNS)
	require.EqualValues(t, 4, k.RegistryBurst)
	require.Equal(t, time.Second, k.SyncFrequency.Duration)
	require.Equal(t, 2*time.Second, k.Authentication.Webhook.CacheTTL.Duration)
	require.Empty(t, k.ClusterDomain)
	require.Equal(t, dir+"/d/30/pods", k.StaticPodPath, "relative to its own file")
	require.EqualValues(t, 7, k.Port)
	require.Equal(t, []string{
		"--config-dir: " + dir + "/d/40-d.yaml: ignored: the name does not end in .conf",
		"--config-dir: " + dir + "/d/50-e.conf.bak: ignored: the name does not end in .conf",
	}, c.Warnings)

	alone, err := FromArgs([]string{"--hostname-override=n", "--config-dir=" + dir + "/d", "--enable-server=false"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.4"}, alone.Kubelet.ClusterDNS)
}

// A field replaces the field of a merge key. Repeated fields are refused with their line.
func TestMergeKeys(t *testing.T) {
	hard := head + "evictionHard: &hard {memory.available: 100Mi, nodefs.available: 10%}\nevictionMinimumReclaim: {nodefs.available: 5%, <<: *hard}\n"
	dir := write(t, map[string]string{"a": hard, "b": hard + "registryBurst: 1\nregistryBurst: 2"})
	c, err := FromArgs([]string{"--hostname-override=n", "--kubeconfig=/k", "--config=" + dir + "/a"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"memory.available": "100Mi", "nodefs.available": "5%"}, c.Kubelet.EvictionMinimumReclaim)
	_, err = FromArgs([]string{"--hostname-override=n", "--kubeconfig=/k", "--config=" + dir + "/b"}, io.Discard)
	require.ErrorContains(t, err, `key "registryBurst" already set in map`)
}

// The error lists every invalid file with its fields.
func TestBadDropIns(t *testing.T) {
	dir := write(t, map[string]string{
		"a.conf": "registryBurst: 3", "b.conf": head + "maxPods: all", "c.conf": head + "readOnlyPort: many", "d.conf": head + "registryBurst: 3",
	})
	_, err := FromArgs([]string{"--hostname-override=n", "--config-dir=" + dir}, io.Discard)
	for _, text := range []string{dir + "/a.conf: apiVersion", dir + `/b.conf:3: maxPods: "all" is not a whole number`, dir + `/c.conf:3: readOnlyPort: "many" is not a port (0 to 65535)`} {
		require.ErrorContains(t, err, text)
	}
	require.NotContains(t, err.Error(), "d.conf")
	_, err = FromArgs([]string{"--hostname-override=n", "--config-dir=" + dir + "/none"}, io.Discard)
	require.ErrorContains(t, err, "--config-dir")
}

// Pipes, devices and files without end fail the start, instead of a wait or all memory. Only --config
// may be a pipe, and --config-dir a link.
func TestSpecialFiles(t *testing.T) {
	dir := write(t, map[string]string{"d/a.conf": head + "maxPods: 7"})
	require.NoError(t, os.Symlink("d", dir+"/link"))
	c, err := FromArgs([]string{"--hostname-override=n", "--kubeconfig=/k", "--config-dir=" + dir + "/link"}, io.Discard)
	require.NoError(t, err)
	require.EqualValues(t, 7, c.Kubelet.MaxPods)
	require.Empty(t, c.Warnings)

	pipe := dir + "/pipe"
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	go func() { _ = os.WriteFile(pipe, []byte(head+"maxPods: 8"), 0) }()
	c, err = FromArgs([]string{"--hostname-override=n", "--kubeconfig=/k", "--config=" + pipe}, io.Discard)
	require.NoError(t, err)
	require.EqualValues(t, 8, c.Kubelet.MaxPods)

	require.NoError(t, os.Symlink(pipe, dir+"/d/b.conf"))
	require.NoError(t, os.Symlink("/dev/zero", dir+"/d/c.conf"))
	require.NoError(t, os.Symlink("none", dir+"/d/d.conf"))
	require.NoError(t, os.WriteFile(dir+"/d/e.conf", nil, 0o600))
	require.NoError(t, os.Truncate(dir+"/d/e.conf", 1<<40))
	_, err = FromArgs([]string{"--hostname-override=n", "--kubeconfig=/k", "--config=/dev/zero", "--config-dir=" + dir + "/d"}, io.Discard)
	for _, text := range []string{
		"--config: /dev/zero: has more bytes than the limit of 10485760", "d/b.conf: is a named pipe, not a file",
		"d/c.conf: is a device, not a file", "d/d.conf: is a symbolic link to a missing file", "d/e.conf: has 1099511627776 bytes, more than the limit",
	} {
		require.ErrorContains(t, err, text)
	}
}
