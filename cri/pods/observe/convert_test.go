package observe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseHash(t *testing.T) {
	c := v1.Container{Image: "busybox", Name: "a"}
	require.Equal(t, podfacts.Hash(&c), parseHash("5264866e"))
	require.Zero(t, parseHash("no hash"))
}

func TestSandboxIPs(t *testing.T) {
	network := func(ip string, more ...string) *runtimeapi.PodSandboxNetworkStatus {
		out := &runtimeapi.PodSandboxNetworkStatus{Ip: ip}
		for _, a := range more {
			out.AdditionalIps = append(out.AdditionalIps, &runtimeapi.PodIP{Ip: a})
		}
		return out
	}
	require.Nil(t, SandboxIPs(nil))
	require.Nil(t, SandboxIPs(network("")))
	require.Equal(t, []string{"10.0.0.1", "fd00::1"}, SandboxIPs(network("10.0.0.1", "fd00::1")))
	require.Nil(t, SandboxIPs(network("10.0.0.1", "nonsense")))
}

func TestConvertResources(t *testing.T) {
	require.Nil(t, toResources(nil))
	got := toResources(&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 102, MemoryLimitInBytes: 1 << 20})
	require.Equal(t, &observed.Resources{MilliCPULimit: new(int64(500)), MilliCPURequest: new(int64(100)), MemoryLimit: new(int64(1 << 20))}, got)
	require.Equal(t, new(int64(0)), toResources(&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: -1}).MilliCPULimit)
	require.Equal(t, &observed.Resources{}, toResources(&runtimeapi.LinuxContainerResources{}))
	for shares, milli := range map[int64]int64{1: 1, 2: 2, 1023: 1000, 1024: 1000, 1025: 1001, 1 << 30: 1 << 20 * 1000} {
		require.Equal(t, milli, *toResources(&runtimeapi.LinuxContainerResources{CpuShares: shares}).MilliCPURequest, shares)
	}
	require.Equal(t, &observed.Resources{MilliCPULimit: new(int64(3000)), MemoryLimit: new(int64(1))}, toResources(&runtimeapi.LinuxContainerResources{CpuPeriod: 1, CpuQuota: 3, MemoryLimitInBytes: 1}))
	for _, quota := range []int64{0, -1, -1000} {
		require.Zero(t, quotaToMilli(quota, 1))
	}
	require.True(t, Time(0).IsZero())
	require.Equal(t, time.Unix(0, 1), Time(1))
}

func TestConvertStatus(t *testing.T) {
	got := toContainerStatus("fake", "s", &runtimeapi.ContainerStatus{
		Id: "1", State: runtimeapi.ContainerState_CONTAINER_CREATED, CreatedAt: 1, StartedAt: 2, FinishedAt: 3, ExitCode: 4,
		ImageRef: "ref", StopSignal: runtimeapi.Signal_SIGNAL_SIGRTMINPLUS1,
		Annotations: map[string]string{labels.AnnotationRestartCount: "bad", labels.AnnotationHash: "xyz"},
	})
	require.True(t, got.StartedAt.IsZero())
	require.Zero(t, got.ExitCode)
	require.True(t, got.FinishedAt.IsZero())
	require.Equal(t, "ref", got.ImageID)
	require.Equal(t, "SIGRTMIN+1", got.StopSignal)
	require.Zero(t, got.RestartCount)
	require.Zero(t, got.Hash)
}

// An event is about the pod whose label it has, as everywhere; what only names a UID is
// still a hint.
func TestEventUID(t *testing.T) {
	label := func(uid string) map[string]string { return map[string]string{labels.PodUID: uid} }
	meta := &runtimeapi.PodSandboxMetadata{Uid: "metadata"}
	containers := []*runtimeapi.ContainerStatus{{}, {Labels: label("container")}}
	for want, event := range map[types.UID]*runtimeapi.ContainerEventResponse{
		"":          {},
		"sandbox":   {PodSandboxStatus: &runtimeapi.PodSandboxStatus{Labels: label("sandbox"), Metadata: meta}, ContainersStatuses: containers},
		"container": {PodSandboxStatus: &runtimeapi.PodSandboxStatus{Metadata: meta}, ContainersStatuses: containers},
		"metadata":  {PodSandboxStatus: &runtimeapi.PodSandboxStatus{Metadata: meta}, ContainersStatuses: containers[:1]},
	} {
		require.Equal(t, want, eventUID(event))
	}
}
