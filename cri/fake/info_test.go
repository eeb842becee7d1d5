package fake_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

func TestConfigIsChecked(t *testing.T) {
	for want, cfg := range map[string]fake.Config{
		"CgroupDriver": {CgroupDriver: "none"},
		"FixedIPs":     {FixedIPs: []string{"x"}},
		"Images[0]":    {Images: []fake.Image{{}}},
	} {
		_, err := fake.New(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestInfo(t *testing.T) {
	rt := start(t, fake.Config{AnyImage: true, Name: "pretend", CgroupDriver: "systemd"})
	version, err := rt.Version(t.Context())
	require.NoError(t, err)
	require.Equal(t, "0.1.0 pretend v1.0.0 v1", strings.Join([]string{version.Version, version.RuntimeName, version.RuntimeVersion, version.RuntimeApiVersion}, " "))
	config, err := rt.RuntimeConfig(t.Context())
	require.NoError(t, err)
	require.Equal(t, runtimeapi.CgroupDriver_SYSTEMD, config.Linux.CgroupDriver)
	require.NoError(t, rt.SetCondition(runtimeapi.NetworkReady, false, "NoCNI", "no network"))
	require.Error(t, rt.SetCondition("Other", true, "", ""))
	s, err := rt.Status(t.Context(), true)
	require.NoError(t, err)
	require.True(t, s.Status.Conditions[0].Status)
	require.False(t, s.Status.Conditions[1].Status)
	require.Equal(t, "NoCNI", s.Status.Conditions[1].Reason)

	require.NoError(t, rt.UpdateRuntimeConfig(t.Context(), &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "10.1.2.0/24,fd00::/64"}}))
	sandbox, err := rt.PodSandboxStatus(t.Context(), sandbox(t, rt, "p"), false)
	require.NoError(t, err)
	require.Equal(t, "10.1.2.2", sandbox.Status.Network.Ip)
	require.Equal(t, "fd00::2", sandbox.Status.Network.AdditionalIps[0].Ip)
}

// A container uses a hundredth of a processor. Statistics and metrics agree.
func TestStatsAndMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true})
		_, id := running(t, rt)
		update := &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 30}}
		require.NoError(t, rt.UpdateContainerResources(t.Context(), update))
		time.Sleep(1000 * time.Second)
		stats, err := rt.ContainerStats(t.Context(), id)
		require.NoError(t, err)
		require.EqualValues(t, 1000*10_000_000, stats.Cpu.UsageCoreNanoSeconds.Value)
		require.EqualValues(t, 1<<30-8<<20, stats.Memory.AvailableBytes.Value)

		descriptors, err := rt.ListMetricDescriptors(t.Context())
		require.NoError(t, err)
		labels := map[string]int{}
		for _, d := range descriptors {
			labels[d.Name] = len(d.LabelKeys)
		}
		pods, err := rt.ListPodSandboxMetrics(t.Context())
		require.NoError(t, err)
		values := map[string]uint64{}
		for _, m := range pods[0].ContainerMetrics[0].Metrics {
			require.Len(t, m.LabelValues, labels[m.Name], m.Name)
			require.Equal(t, time.Now().UnixNano(), m.Timestamp)
			values[m.Name] = m.Value.Value
		}
		require.Len(t, values, len(labels))
		require.EqualValues(t, 10, values["container_cpu_usage_seconds_total"])
		require.Equal(t, stats.Memory.WorkingSetBytes.Value, values["container_memory_working_set_bytes"])
		require.EqualValues(t, time.Now().Add(-1000*time.Second).Unix(), values["container_start_time_seconds"])

		require.NoError(t, rt.StopContainer(t.Context(), id, 0))
		require.Equal(t, codes.FailedPrecondition, status.Code(rt.UpdateContainerResources(t.Context(), update)))
		pods, err = rt.ListPodSandboxMetrics(t.Context())
		require.NoError(t, err)
		require.Empty(t, pods[0].ContainerMetrics)
	})
}
