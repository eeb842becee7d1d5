package agent

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/kubelet/config"
)

func TestSwapController(t *testing.T) {
	for _, test := range []struct {
		file string
		want bool
	}{
		{"memory/memory.limit_in_bytes", false},
		{"memory/memory.memsw.limit_in_bytes", true},
		{"init.scope/memory.max", false},
		{"init.scope/memory.swap.max", true},
	} {
		root := t.TempDir()
		path := filepath.Join(root, test.file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.Equal(t, test.want, swapController(root), test.file)
	}
	require.False(t, swapController(filepath.Join(t.TempDir(), "none")))
}

func TestDescribeNode(t *testing.T) {
	cfg := config.Default()
	cfg.Flags.NodeName, cfg.Flags.RootDir = "n", "/r"
	node := describeNode(cfg)
	require.False(t, node.NoCPUQuota || node.SeccompDefault || node.SingleProcessOOMKill || node.LimitedSwap)
	require.Equal(t, 100*time.Millisecond, node.CPUQuotaPeriod)

	k := &cfg.Kubelet
	*k.CPUCFSQuota, *k.SeccompDefault, k.SingleProcessOOMKill = false, true, new(true)
	k.CPUCFSQuotaPeriod.Duration, k.MemorySwap.SwapBehavior = time.Millisecond, config.LimitedSwap
	node = describeNode(cfg)
	require.Equal(t, "n", node.Name)
	require.Equal(t, "/r/seccomp", node.SeccompRoot)
	require.True(t, node.NoCPUQuota && node.SeccompDefault && node.SingleProcessOOMKill && node.LimitedSwap)
	require.Equal(t, time.Millisecond, node.CPUQuotaPeriod)
	require.Positive(t, node.MemoryCapacity)
	require.Empty(t, node.Allocatable, "that takes what is reserved")
}

func TestMeminfo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "meminfo")
	require.NoError(t, os.WriteFile(file, []byte("MemTotal:        8000 kB\nSwapCached: 5 kB\nSwapTotal:  100 kB\nBad: x kB\n"), 0o600))
	for name, want := range map[string]int64{"MemTotal:": 8000 * 1024, "SwapTotal:": 100 * 1024, "Bad:": 0, "None:": 0} {
		require.Equal(t, want, meminfo(file, name), name)
	}
	require.Zero(t, meminfo(file+"x", "MemTotal:"))
}

func TestDockerConfigs(t *testing.T) {
	require.Equal(t, []string{
		"/r/config.json", "/h/.docker/config.json", "/.docker/config.json", "/r/.dockercfg", "/h/.dockercfg", "/.dockercfg",
	}, dockerConfigs("/r", "/h"))
	require.Len(t, dockerConfigs("/r", ""), 4)
}

func TestHugePageSizes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"hugepages-2048kB", "hugepages-1048576kB", "hugepages-64kB", "other"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	require.Equal(t, []string{"1GB", "2MB", "64KB"}, hugePageSizes(dir))
	require.Empty(t, hugePageSizes(filepath.Join(dir, "none")))
}

// The node's addresses are looked at again after a while, and at once while there are none.
func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now []string
		looks := 0
		a := addresses{look: func() []string { looks++; return now }}
		require.Empty(t, a.get())
		now = []string{"192.0.2.1"}
		require.Equal(t, now, a.get())
		a.get()[0] = "mine"
		require.Equal(t, now, a.get())
		require.Equal(t, 2, looks)
		now = []string{"192.0.2.2"}
		time.Sleep(fresh)
		require.Equal(t, now, a.get())
	})
}
