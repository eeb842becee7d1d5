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
		"KillTimeout":  {KillTimeout: -1},
		"CgroupDriver": {CgroupDriver: "none"},
		"FixedIPs":     {FixedIPs: []string{"x"}},
		"Images[0]":    {Images: []fake.Image{{}}},
	} {
		_, err := fake.New(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestInfoAndStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rt := start(t, fake.Config{AnyImage: true, Name: "pretend", CgroupDriver: "systemd"})
		version, err := rt.Version(ctx)
		require.NoError(t, err)
		require.Equal(t, "0.1.0 pretend v1.0.0 v1", strings.Join([]string{version.Version, version.RuntimeName, version.RuntimeVersion, version.RuntimeApiVersion}, " "))
		config, err := rt.RuntimeConfig(ctx)
		require.NoError(t, err)
		require.Equal(t, runtimeapi.CgroupDriver_SYSTEMD, config.Linux.CgroupDriver)
		require.NoError(t, rt.SetCondition(runtimeapi.NetworkReady, false, "NoCNI", "no network"))
		require.Error(t, rt.SetCondition("Other", true, "", ""))
		s, err := rt.Status(ctx, true)
		require.NoError(t, err)
		require.True(t, s.Status.Conditions[0].Status)
		require.False(t, s.Status.Conditions[1].Status)
		require.Equal(t, "NoCNI", s.Status.Conditions[1].Reason)

		require.NoError(t, rt.UpdateRuntimeConfig(ctx, &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "10.1.2.0/24,fd00::/64"}}))
		sandboxID, id := running(t, rt)
		sandbox, err := rt.PodSandboxStatus(ctx, sandboxID, false)
		require.NoError(t, err)
		require.Equal(t, "10.1.2.2", sandbox.Status.Network.Ip)
		require.Equal(t, "fd00::2", sandbox.Status.Network.AdditionalIps[0].Ip)

		update := &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 30}}
		require.NoError(t, rt.UpdateContainerResources(ctx, update))
		update.Linux = &runtimeapi.LinuxContainerResources{CpuShares: 512, Unified: map[string]string{"a": "b"}}
		require.NoError(t, rt.UpdateContainerResources(ctx, update))
		resources := statusOf(t, rt, id).Resources.Linux
		require.EqualValues(t, 1<<30, resources.MemoryLimitInBytes)
		require.EqualValues(t, 512, resources.CpuShares)

		time.Sleep(10 * time.Second)
		stats, err := rt.ContainerStats(ctx, id)
		require.NoError(t, err)
		require.EqualValues(t, 10*10_000_000, stats.Cpu.UsageCoreNanoSeconds.Value)
		require.EqualValues(t, 1<<30-8<<20, stats.Memory.AvailableBytes.Value)
		pod, err := rt.PodSandboxStats(ctx, sandboxID)
		require.NoError(t, err)
		require.Len(t, pod.Linux.Containers, 1)
		require.EqualValues(t, 1, pod.Linux.Process.ProcessCount.Value)
		all, err := rt.ListContainerStats(ctx, nil)
		require.NoError(t, err)
		require.Len(t, all, 1)
		pods, err := rt.ListPodSandboxStats(ctx, nil)
		require.NoError(t, err)
		require.Len(t, pods, 1)
		require.NoError(t, rt.StopPodSandbox(ctx, sandboxID))
		all, err = rt.ListContainerStats(ctx, &runtimeapi.ContainerStatsFilter{Id: id})
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Nil(t, all[0].Cpu)
		require.Nil(t, all[0].Memory)
		_, err = rt.PodSandboxStats(ctx, sandboxID)
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Equal(t, codes.FailedPrecondition, status.Code(rt.UpdateContainerResources(ctx, update)))
	})
}
