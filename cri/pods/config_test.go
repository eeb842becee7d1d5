package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/request"
)

func TestNewRefuses(t *testing.T) {
	good := Config{Runtime: &recorder{}, Images: &presentImages{}, RuntimeName: "fake"}
	_, err := New(good)
	require.NoError(t, err)
	for field, spoil := range map[string]func(*Config){
		"Runtime":             func(c *Config) { c.Runtime = nil },
		"Images":              func(c *Config) { c.Images = nil },
		"RuntimeName":         func(c *Config) { c.RuntimeName = "" },
		"MaxConcurrentStarts": func(c *Config) { c.MaxConcurrentStarts = -1 },
		"MaxCrashLoopDelay":   func(c *Config) { c.MaxCrashLoopDelay = -1 },
		"LogRoot":             func(c *Config) { c.LogRoot = "relative" },
	} {
		cfg := good
		spoil(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
}

// The files of a container: its message file, the directory of its logs and, once the pod has
// an address or the node's network, /etc/hosts (6.5). What it mounts itself wins. The rest of
// the request is compared by TestGolden.
func TestFilesOfContainer(t *testing.T) {
	h := newHarness(t, fake.Config{})
	h.cfg.DNS.ClusterDomain, h.cfg.DNS.HostsFile = "cluster.local", filepath.Join(h.dir, "node-hosts")
	require.NoError(t, os.WriteFile(h.cfg.DNS.HostsFile, []byte("192.0.2.9\tnode\n"), 0o600))
	h.restart()
	pod := testPod("a")
	in := request.Instance{Pod: pod, Container: &pod.Spec.Containers[0]}
	config, err := h.m.containerConfig(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, config.Mounts, 1, "without an address there is no /etc/hosts")
	info, err := os.Stat(config.Mounts[0].HostPath)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o666), info.Mode().Perm())
	require.DirExists(t, filepath.Join(h.dir, "pods", "shop_web_0d1e", "a"))

	for network, ending := range map[string]string{"pod": "10.0.0.2\tweb\nfd00::2\tweb\n", "host": "# Kubernetes-managed hosts file (host network).\n192.0.2.9\tnode\n"} {
		pod.Spec.HostNetwork = network == "host"
		in.PodIPs = []string{"10.0.0.2", "fd00::2"}
		config, err := h.m.containerConfig(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, config.Mounts, 2)
		require.Equal(t, "/etc/hosts", config.Mounts[0].ContainerPath)
		require.Equal(t, filepath.Join(h.dir, "kubelet", "0d1e", "etc-hosts"), config.Mounts[0].HostPath)
		require.False(t, config.Mounts[0].Readonly)
		content, err := os.ReadFile(config.Mounts[0].HostPath)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(string(content), ending), string(content))
	}
}

// What cannot be honoured is refused by name.
func TestUnsupported(t *testing.T) {
	require.Empty(t, Unsupported(testPod("a")))
	windows := &v1.SecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{}}
	claims := v1.ResourceRequirements{Claims: []v1.ResourceClaim{{}}}
	full := testPod("a")
	full.Spec.InitContainers = []v1.Container{{Resources: claims}}
	full.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{SecurityContext: windows}}}
	full.Spec.ResourceClaims = []v1.PodResourceClaim{{}}
	full.Spec.OS = &v1.PodOS{Name: v1.Windows}
	full.Spec.SecurityContext = &v1.PodSecurityContext{WindowsOptions: windows.WindowsOptions}
	full.Spec.Containers[0].Resources, full.Spec.Containers[0].SecurityContext = claims, windows
	var got []string
	for _, err := range Unsupported(full) {
		got = append(got, strings.TrimSuffix(err.Error(), ": not supported"))
	}
	require.Equal(t, []string{
		"spec.resourceClaims", "spec.os", "spec.securityContext.windowsOptions", "spec.initContainers[0].resources.claims",
		"spec.containers[0].resources.claims", "spec.containers[0].securityContext.windowsOptions",
		"spec.ephemeralContainers[0].securityContext.windowsOptions",
	}, got)
}
