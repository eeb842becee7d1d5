package pods

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/pleg/observed"
)

func TestNewRefuses(t *testing.T) {
	good := Config{Runtime: &recorder{}, Images: &presentImages{}, RuntimeName: "fake", Owner: cri.Owner{Name: "edge"}}
	_, err := New(good)
	require.NoError(t, err)
	for field, spoil := range map[string]func(*Config){
		"Runtime":             func(c *Config) { c.Runtime = nil },
		"Images":              func(c *Config) { c.Images = nil },
		"RuntimeName":         func(c *Config) { c.RuntimeName = "" },
		"MaxConcurrentStarts": func(c *Config) { c.MaxConcurrentStarts = -1 },
		"MaxCrashLoopDelay":   func(c *Config) { c.MaxCrashLoopDelay = -1 },
		"Owner":               func(c *Config) { c.Owner = cri.Owner{} },
		"LogRoot":             func(c *Config) { c.LogRoot = "relative" },
	} {
		cfg := good
		spoil(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
}

// A start makes the container's message file, its log directory, and, once the pod has an address
// or the node's network, /etc/hosts (6.5). A volume mounted at the same path replaces them.
// TestGolden compares the rest of the request.
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

// Unsupported fields are refused with their path.
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

// Incomplete requests, the status of another pod, and a pod without UID, name or namespace are
// refused without any action.
func TestIdentityIsChecked(t *testing.T) {
	h := newHarness(t, fake.Config{})
	other := testPod("b")
	other.UID, other.Name = "0ther", "other"
	h.mustSync(other)
	h.runtime.take()
	theirs := h.status(other)
	nothing := &observed.Pod{UID: testPod("a").UID}
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		status *observed.Pod
		fails  string
	}{
		"status of another": {func(*v1.Pod) {}, theirs, `Status.UID is "0ther", want "0d1e"`},
		"status of nobody":  {func(*v1.Pod) {}, &observed.Pod{}, `Status.UID is "", want "0d1e"`},
		"no UID":            {func(p *v1.Pod) { p.UID = "" }, nothing, "Pod.UID is required"},
		"neither has a UID": {func(p *v1.Pod) { p.UID = "" }, &observed.Pod{}, "Pod.UID is required"},
		"no name":           {func(p *v1.Pod) { p.Name = "" }, nothing, "Pod.Name is required"},
		"no namespace":      {func(p *v1.Pod) { p.Namespace = "" }, nothing, "Pod.Namespace is required"},
		"no status":         {func(*v1.Pod) {}, nil, "Request.Status"},
	} {
		pod := testPod("a")
		tc.change(pod)
		require.ErrorContains(t, h.m.SyncPod(t.Context(), SyncRequest{Pod: pod, Status: tc.status}).Err(), tc.fails, name)
		require.ErrorContains(t, h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: tc.status}).Err(), tc.fails, name)
	}
	nobodys := *theirs
	nobodys.UID = ""
	require.ErrorContains(t, h.m.KillPod(t.Context(), KillRequest{Status: &nobodys}).Err(), "Status.UID is required")
	require.ErrorContains(t, h.garbage.RemovePod(t.Context(), "0d1e", theirs), "the Status has UID")
	require.ErrorContains(t, h.garbage.RemovePod(t.Context(), "", &nobodys), "Status.UID is required")
	require.ErrorContains(t, h.garbage.RemovePod(t.Context(), "0d1e", nil), "Status is required")
	require.ErrorContains(t, h.garbage.CleanDeadContainers(t.Context(), garbage.CleanRequest{Status: &nobodys, All: true}), "Status.UID is required")
	require.ErrorContains(t, h.garbage.CleanDeadContainers(t.Context(), garbage.CleanRequest{}), "Status is required")
	_, err := h.seen.PodIPs(t.Context(), nil)
	require.ErrorContains(t, err, "no UID")
	require.Empty(t, h.runtime.take())
	require.Len(t, h.status(other).Running(), 1)
}

// A container may write any amount to its hosts file. The next start restores the content without
// reading the whole file into memory.
func TestHostsFileThatAContainerHasBlownUp(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	file, err := h.m.writeHosts(pod, []string{"10.0.0.2"})
	require.NoError(t, err)
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, 256<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = h.m.writeHosts(pod, []string{"10.0.0.2"})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, len(want), info.Size())
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, have)
}

// A container with access to the pod's folder may replace the agent's files. The agent does not block
// on a pipe, and does not write through a link.
func TestFilesOfThePodArePlain(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	hosts := func() (string, error) { return h.m.writeHosts(pod, nil) }
	message := func() (string, error) { return h.m.files.MakeTerminationFile(pod.UID, "a", 0) }
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("other"), 0o600))
	for _, write := range []func() (string, error){hosts, message} {
		path, err := write()
		require.NoError(t, err)
		for name, plant := range map[string]func() error{
			"pipe":   func() error { return unix.Mkfifo(path, 0o600) },
			"link":   func() error { return os.Symlink(other, path) },
			"folder": func() error { return os.Mkdir(path, 0o700) },
		} {
			require.NoError(t, os.Remove(path), name)
			require.NoError(t, plant(), name)
			written := make(chan error, 1)
			go func() {
				_, err := write()
				written <- err
			}()
			select {
			case err := <-written:
				require.ErrorContains(t, err, path, name)
			case <-time.After(patience):
				t.Fatal(name + ": it waits")
			}
		}
	}
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "other", string(text))
}
