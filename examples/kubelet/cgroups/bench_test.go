package cgroups_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/cgroups"
	kubelet "github.com/podwright/podwright/examples/kubelet/cgroups"
)

// BenchmarkPodCgroup measures the creation of a pod cgroup.
func BenchmarkPodCgroup(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	h, err := kubelet.NewHost(cgroups.Cgroupfs)
	require.NoError(b, err)
	root := cgroups.Name{"podwrightbench" + strconv.Itoa(os.Getpid())}
	require.NoError(b, h.Set(b.Context(), root, cgroups.Values{}))
	defer func() { require.NoError(b, h.Remove(b.Context(), root)) }()
	pod := append(root, "pod")
	quota := int64(20_000)
	period := uint64(100_000)
	for b.Loop() {
		require.NoError(b, h.Set(b.Context(), pod, cgroups.Values{Shares: 205, Quota: quota, Period: period, Memory: 64 << 20}))
		b.StopTimer()
		require.NoError(b, h.Remove(b.Context(), pod))
		b.StartTimer()
	}
}
