package cgroups_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/cgroups"
	kubelet "github.com/podwright/podwright/examples/kubelet/cgroups"
)

const inGuest = "PODWRIGHT_GUEST"

// TestHost creates cgroups on this machine, below a root of its own.
func TestHost(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv(inGuest) != "" {
		t.Skip("needs root, and not to be in the guest")
	}
	hostSuite(t, cgroups.Cgroupfs)
}

// TestGuestHost does the same with cgroup v2, directly and through systemd.
func TestGuestHost(t *testing.T) {
	if os.Getenv(inGuest) == "" {
		t.Skip("go run ./examples/tools/testbed/vm test ./examples/kubelet/cgroups")
	}
	for _, driver := range []cgroups.Driver{cgroups.Cgroupfs, cgroups.Systemd} {
		t.Run(string(driver), func(t *testing.T) { hostSuite(t, driver) })
	}
}

// An agent that is killed while it removes a cgroup leaves it in any of the hierarchies. The next one
// finds and removes it.
func TestHostFindsPartlyRemovedCgroup(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv(inGuest) != "" {
		t.Skip("needs root, and not to be in the guest")
	}
	h, err := kubelet.NewHost(cgroups.Cgroupfs)
	require.NoError(t, err)
	if h.Version() != cgroups.V1 {
		t.Skip("version 2 has one hierarchy")
	}
	root := cgroups.Name{"podwrightpartly" + strconv.Itoa(os.Getpid())}
	pod := append(root, "pod")
	t.Cleanup(func() { require.NoError(t, h.Remove(t.Context(), root)) })
	for _, hierarchy := range []string{"freezer", "memory"} {
		folder := filepath.Join("/sys/fs/cgroup", hierarchy, root[0], "pod")
		require.NoError(t, os.MkdirAll(folder, 0o755))
		children, err := h.Children(root)
		require.NoError(t, err)
		require.Equal(t, []cgroups.Name{pod}, children, hierarchy)
		require.NoError(t, h.Remove(t.Context(), pod))
		require.NoDirExists(t, folder)
	}
}

// TestHostSetsConcurrently sets different values of one cgroup concurrently.
func TestHostSetsConcurrently(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv(inGuest) != "" {
		t.Skip("needs root, and not to be in the guest")
	}
	h, err := kubelet.NewHost(cgroups.Cgroupfs)
	require.NoError(t, err)
	name := cgroups.Name{"podwrightatonce" + strconv.Itoa(os.Getpid())}
	t.Cleanup(func() { require.NoError(t, h.Remove(t.Context(), name)) })
	var sides sync.WaitGroup
	for i := range uint64(4) {
		sides.Go(func() {
			for n := range uint64(50) {
				assert.NoError(t, h.Set(t.Context(), name, cgroups.Values{Shares: 100 + 100*i + n}))
			}
		})
	}
	sides.Wait()
}

// file reads a file of a cgroup, named as by cgroups.Values.Files.
func file(t testing.TB, h *kubelet.Host, path, name string) string {
	folder := filepath.Join("/sys/fs/cgroup", path)
	if controller, inside, ok := strings.Cut(name, "/"); ok && h.Version() == cgroups.V1 {
		folder, name = filepath.Join("/sys/fs/cgroup", controller, path), inside
	}
	text, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

func requireValues(t testing.TB, h *kubelet.Host, path string, v cgroups.Values) {
	t.Helper()
	for name, want := range v.Files(h.Version()) {
		require.Equal(t, want, file(t, h, path, name), "%s of %s", name, path)
	}
}

func hostSuite(t *testing.T, driver cgroups.Driver) {
	h, err := kubelet.NewHost(driver)
	require.NoError(t, err)
	root := "podwrighttest" + strconv.Itoa(os.Getpid())
	at, err := cgroups.NewTree(driver, root)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, h.Remove(t.Context(), at.Pods()))
		require.NoError(t, h.Remove(t.Context(), at.Root()))
	})
	cfg := kubelet.Config{
		Tree:   at,
		Values: cgroups.Config{PodPids: 20, HugePageSizes: h.HugePageSizes()},
	}
	s := open(t, h, cfg)
	require.NoError(t, s.Update(t.Context(), nil))
	all := cgroups.Values{Shares: 1024, Memory: 1 << 30, Pids: 500}
	require.NoError(t, h.Set(t.Context(), at.Pods(), all))
	require.NoError(t, s.Setup(t.Context()))
	requireValues(t, h, at.Path(at.Pods()), all)

	pods := []*v1.Pod{podOf("1-guaranteed", v1.PodQOSGuaranteed, 500), podOf("2-burstable", v1.PodQOSBurstable, 250), podOf("3-besteffort", v1.PodQOSBestEffort, 0)}
	for _, pod := range pods {
		for range 2 {
			require.NoError(t, s.Prepare(t.Context(), pod))
		}
		requireValues(t, h, at.Path(at.Pod(pod)), cgroups.ForPod(cfg.Values, pod))
	}
	requireValues(t, h, at.Path(at.Class(v1.PodQOSBurstable)), cgroups.Values{Shares: 256})
	requireValues(t, h, at.Path(at.Class(v1.PodQOSBestEffort)), cgroups.Values{Shares: 2})

	pods[0] = podOf("1-guaranteed", v1.PodQOSGuaranteed, 1000)
	require.NoError(t, s.Prepare(t.Context(), pods[0]))
	requireValues(t, h, at.Path(at.Pod(pods[0])), cgroups.ForPod(cfg.Values, pods[0]))

	// Another agent finds a leftover cgroup with a running process.
	run := runIn(t, h, at.Path(at.Pod(pods[1]))+"/inner")
	for i, want := range []bool{false, true} {
		inUse, err := h.InUse(at.Pod(pods[i]))
		require.NoError(t, err)
		require.Equal(t, want, inUse)
	}
	used, err := h.MemoryUsage(at.Pods())
	require.NoError(t, err)
	require.GreaterOrEqual(t, used, int64(0))
	s = open(t, h, cfg)
	left, err := s.Leftovers(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []types.UID{"1-guaranteed", "2-burstable", "3-besteffort"}, left)
	require.NoError(t, s.Release(t.Context(), "2-burstable"))
	require.Error(t, run.Wait(), "it is killed")
	for _, uid := range []types.UID{"1-guaranteed", "3-besteffort", "never-there"} {
		require.NoError(t, s.Release(t.Context(), uid))
	}
	left, err = s.Leftovers(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
	there, err := h.IsComplete(at.Pod(pods[1]))
	require.NoError(t, err)
	require.False(t, there)
}

func runIn(t testing.TB, h *kubelet.Host, path string) *exec.Cmd {
	folders := []string{filepath.Join("/sys/fs/cgroup", path)}
	if h.Version() == cgroups.V1 {
		folders = []string{filepath.Join("/sys/fs/cgroup/memory", path), filepath.Join("/sys/fs/cgroup/cpu", path)}
	}
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for _, folder := range folders {
		require.NoError(t, os.MkdirAll(folder, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
	}
	return cmd
}
