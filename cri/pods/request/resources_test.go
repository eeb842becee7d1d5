package request

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// 6.7: the formulas.
func TestContainerResources(t *testing.T) {
	node := Node{CPUQuotaPeriod: 100 * time.Millisecond, MemoryCapacity: 1 << 30}
	withRequests := func(requests, limits v1.ResourceList) *v1.Pod {
		pod := testPod("a")
		pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: requests, Limits: limits}
		return pod
	}
	podLevel := testPod("a")
	podLevel.Spec.Resources = &v1.ResourceRequirements{Limits: quantities("cpu", "1", "memory", "64Mi")}
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want *runtimeapi.LinuxContainerResources
	}{
		{"nothing", testPod("a"), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 1000}},
		{
			"request and limit", withRequests(quantities("cpu", "500m", "memory", "256Mi"), quantities("cpu", "1", "memory", "512Mi")),
			&runtimeapi.LinuxContainerResources{CpuShares: 512, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: 512 << 20, OomScoreAdj: 750},
		},
		{"limit only", withRequests(nil, quantities("cpu", "250m")), &runtimeapi.LinuxContainerResources{CpuShares: 256, CpuPeriod: 100000, CpuQuota: 25000, OomScoreAdj: 999}},
		{"tiny limit", withRequests(nil, quantities("cpu", "1m")), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 1000, OomScoreAdj: 999}},
		{"huge request", withRequests(quantities("cpu", "1000"), nil), &runtimeapi.LinuxContainerResources{CpuShares: 262144, CpuPeriod: 100000, OomScoreAdj: 999}},
		{"most of the memory", withRequests(quantities("memory", "1023Mi"), nil), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 3}},
		{
			"guaranteed", withRequests(quantities("cpu", "1", "memory", "1Mi"), quantities("cpu", "1", "memory", "1Mi")),
			&runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: 1 << 20, OomScoreAdj: -997},
		},
		{"pod level", podLevel, &runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: 64 << 20, OomScoreAdj: 999}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := containerResources(tc.pod, &tc.pod.Spec.Containers[0], node)
			require.Equal(t, tc.want.String(), got.String())
		})
	}
	pod := withRequests(nil, quantities("memory", "1Mi"))
	got := containerResources(pod, &pod.Spec.Containers[0], Node{NoCPUQuota: true, CgroupV2: true, SwapController: true})
	require.Zero(t, got.CpuPeriod)
	require.Equal(t, map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"}, got.Unified)
	got = containerResources(pod, &pod.Spec.Containers[0], Node{NoCPUQuota: true, SwapController: true, HugePageSizes: []string{"1GB", "2MB"}})
	require.EqualValues(t, 1<<20, got.MemorySwapLimitInBytes)
	require.Equal(t, []*runtimeapi.HugepageLimit{{PageSize: "1GB"}, {PageSize: "2MB"}}, got.HugepageLimits)
}

func TestPodLevelMemoryIsSpread(t *testing.T) {
	pod := testPod("a", "b")
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: quantities("memory", "512Mi")}
	pod.Spec.Containers[0].Resources.Requests = quantities("memory", "256Mi")
	require.EqualValues(t, 1000-375, oomScore(pod, &pod.Spec.Containers[0], 1<<30))
	require.EqualValues(t, 1000-125, oomScore(pod, &pod.Spec.Containers[1], 1<<30))
	pod.Spec.PriorityClassName = "system-node-critical"
	require.EqualValues(t, -997, oomScore(pod, &pod.Spec.Containers[1], 1<<30))
}

func TestSandboxResources(t *testing.T) {
	pod := testPod("a", "b")
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: quantities("cpu", "100m"), Limits: quantities("cpu", "1", "memory", "1Mi")}
	pod.Spec.Containers[1].Resources = v1.ResourceRequirements{Limits: quantities("cpu", "1", "memory", "2Mi")}
	pod.Spec.Overhead = quantities("memory", "5Mi")
	node := Node{CPUQuotaPeriod: 100 * time.Millisecond}
	got := sandboxResources(pod, node)
	require.EqualValues(t, 1126, got.CpuShares)
	require.EqualValues(t, 200000, got.CpuQuota)
	require.EqualValues(t, 3<<20, got.MemoryLimitInBytes)
	require.EqualValues(t, 5<<20, overheadResources(pod, node).MemoryLimitInBytes)
	require.Nil(t, overheadResources(testPod("a"), node))
	pod.Spec.Resources = &v1.ResourceRequirements{Limits: quantities("memory", "9Mi")}
	require.EqualValues(t, 9<<20, sandboxResources(pod, node).MemoryLimitInBytes)
}
