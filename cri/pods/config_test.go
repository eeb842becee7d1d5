package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
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
		"MaxConcurrentStops":  func(c *Config) { c.MaxConcurrentStops = -1 },
		"MaxPodStops":         func(c *Config) { c.MaxPodStops = -1 },
		"MaxCrashLoopDelay":   func(c *Config) { c.MaxCrashLoopDelay = -1 },
		"StepGrace":           func(c *Config) { c.StepGrace = -1 },
		"LogRoot":             func(c *Config) { c.LogRoot = "relative" },
	} {
		cfg := good
		spoil(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
}

// The container's configuration as the runtime gets it.
func TestContainerConfig(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	c := &pod.Spec.Containers[0]
	c.Command, c.Args = []string{"run", "$(X)"}, []string{"$(Y)"}
	c.Env = []v1.EnvVar{{Name: "X", Value: "1"}}
	c.Stdin, c.TTY, c.WorkingDir = true, true, "/w"
	in := instance{pod: pod, container: c, image: images.Image{Ref: "sha256:1", UserSpecified: "busybox"}, restartCount: 2}
	got, err := h.m.containerConfig(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "sha256:1", got.Image.Image)
	require.Equal(t, "busybox", got.Image.UserSpecifiedImage)
	require.EqualValues(t, 2, got.Metadata.Attempt)
	require.Equal(t, []string{"run", "1"}, got.Command)
	require.Equal(t, []string{"$(Y)"}, got.Args)
	require.Equal(t, "a/2.log", got.LogPath)
	require.True(t, got.Stdin && got.Tty)
	require.Len(t, got.Mounts, 1, "without an address there is no /etc/hosts")
	info, err := os.Stat(got.Mounts[0].HostPath)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o666), info.Mode().Perm())
	require.DirExists(t, filepath.Join(h.dir, "pods", "shop_web_0d1e", "a"))
}

// 6.5: /etc/hosts of the pod.
func TestHosts(t *testing.T) {
	h := newHarness(t, fake.Config{})
	h.cfg.DNS.ClusterDomain, h.cfg.DNS.HostsFile = "cluster.local", filepath.Join(h.dir, "node-hosts")
	require.NoError(t, os.WriteFile(h.cfg.DNS.HostsFile, []byte("192.0.2.9\tnode\n"), 0o600))
	h.restart()
	pod := testPod("a")
	pod.Spec.Subdomain = "sub"
	pod.Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"x", "y"}}}
	in := instance{pod: pod, container: &pod.Spec.Containers[0], podIPs: []string{"10.0.0.2", "fd00::2"}}
	config, err := h.m.containerConfig(t.Context(), in)
	require.NoError(t, err)
	mounts := config.Mounts
	require.Len(t, mounts, 2)
	require.Equal(t, "/etc/hosts", mounts[0].ContainerPath)
	require.False(t, mounts[0].Readonly)
	content, err := os.ReadFile(filepath.Join(h.dir, "kubelet", "0d1e", "etc-hosts"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(content), "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"))
	require.True(t, strings.HasSuffix(string(content),
		"10.0.0.2\tweb.sub.shop.svc.cluster.local\tweb\nfd00::2\tweb.sub.shop.svc.cluster.local\tweb\n\n# Entries added by HostAliases.\n192.0.2.7\tx\ty\n"))
	pod.Spec.HostNetwork, pod.Spec.HostAliases = true, nil
	file, err := h.m.writeHosts(pod, nil)
	require.NoError(t, err)
	content, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "# Kubernetes-managed hosts file (host network).\n192.0.2.9\tnode\n", string(content))
	memory := &request.Memory{}
	memory.SetVolume(pod.UID, "v", request.Volume{Path: h.dir})
	h.cfg.Inputs.Volumes = memory
	in.container.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/etc/hosts"}, {Name: "v", MountPath: "/dev/termination-log"}}
	h.restart()
	config, err = h.m.containerConfig(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, config.Mounts, 2, "what the pod mounts there wins")
}

// What cannot be honoured is refused by name.
func TestUnsupported(t *testing.T) {
	require.Empty(t, Unsupported(testPod("a")))
	full := testPod("a")
	full.Spec.InitContainers = []v1.Container{{Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{}}}}}
	full.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		SecurityContext: &v1.SecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{}},
	}}}
	full.Spec.ResourceClaims = []v1.PodResourceClaim{{}}
	full.Spec.OS = &v1.PodOS{Name: v1.Windows}
	full.Spec.SecurityContext = &v1.PodSecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{}}
	c := &full.Spec.Containers[0]
	c.Resources.Claims = []v1.ResourceClaim{{}}
	c.SecurityContext = &v1.SecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{}}
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
