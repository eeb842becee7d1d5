package request

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func builderOf(t *testing.T, node Node) *Builder {
	t.Helper()
	b, err := New(Config{Node: node})
	require.NoError(t, err)
	return b
}

func TestPodLevelMemoryIsSpread(t *testing.T) {
	pod := testPod("a", "b")
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: quantities("memory", "512Mi")}
	pod.Spec.Containers[0].Resources.Requests = quantities("memory", "256Mi")
	require.EqualValues(t, 1000-375, oomScore(pod, &pod.Spec.Containers[0], 1<<30))
	require.EqualValues(t, 1000-125, oomScore(pod, &pod.Spec.Containers[1], 1<<30))
	pod.Spec.Containers[0].Resources.Requests = quantities("memory", "768Mi")
	require.EqualValues(t, 999, oomScore(pod, &pod.Spec.Containers[1], 1<<30), "more than all is claimed")
	pod.Spec.PriorityClassName = "system-node-critical"
	require.EqualValues(t, -997, oomScore(pod, &pod.Spec.Containers[1], 1<<30))
}

func TestInitResources(t *testing.T) {
	cpu := func(name, cpu string) v1.Container {
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: quantities("cpu", cpu), Limits: quantities("memory", cpu)}}
	}
	side := func(c v1.Container) v1.Container {
		c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		return c
	}
	for _, tc := range []struct {
		name string
		init []v1.Container
		want int64
	}{
		{"none", nil, 2048},
		{"small init", []v1.Container{cpu("i", "1")}, 2048},
		{"large init", []v1.Container{cpu("i", "5"), cpu("j", "4")}, 5120},
		{"sidecar", []v1.Container{side(cpu("s", "1"))}, 3072},
		{"sidecar before init", []v1.Container{side(cpu("s", "1")), cpu("i", "5")}, 6144},
		{"sidecar after init", []v1.Container{cpu("i", "5"), side(cpu("s", "1"))}, 5120},
		{"two sidecars", []v1.Container{side(cpu("s", "1")), cpu("i", "2"), side(cpu("u", "1"))}, 4096},
	} {
		pod := testPod()
		pod.Spec.Containers, pod.Spec.InitContainers = []v1.Container{cpu("a", "2")}, tc.init
		got := builderOf(t, Node{}).sandboxResources(pod)
		require.Equal(t, tc.want, got.CpuShares, tc.name)
		require.Equal(t, tc.want/1024, got.MemoryLimitInBytes, tc.name)
	}
}

// Sandbox and overhead have the settings of cgroup v2, too, and exclusive CPUs have no quota.
func TestUnifiedAndExclusive(t *testing.T) {
	pod := testPod("a", "b")
	pod.Spec.Overhead = quantities("cpu", "100m")
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Resources.Limits = quantities("cpu", "1")
	}
	b, err := New(Config{
		Node:   Node{CgroupV2: true},
		Inputs: Inputs{ExclusiveCPUs: func(_ *v1.Pod, c *v1.Container) bool { return c == nil || c.Name == "a" }},
	})
	require.NoError(t, err)
	group := map[string]string{"memory.oom.group": "1"}
	require.Equal(t, group, b.sandboxResources(pod).Unified)
	require.Equal(t, group, b.Overhead(pod).Unified)
	require.EqualValues(t, -1, b.sandboxResources(pod).CpuQuota)
	require.EqualValues(t, -1, b.ContainerResources(pod, &pod.Spec.Containers[0]).CpuQuota)
	require.EqualValues(t, 100000, b.ContainerResources(pod, &pod.Spec.Containers[1]).CpuQuota)
	require.EqualValues(t, 10000, b.Overhead(pod).CpuQuota)
	require.EqualValues(t, 512, b.CgroupResources(500, 1000, 0).CpuShares)
	require.EqualValues(t, 1024, b.CgroupResources(-1, 1000, 0).CpuShares)
	single := builderOf(t, Node{CgroupV2: true, SingleProcessOOMKill: true})
	require.Nil(t, single.sandboxResources(pod).Unified)
	none := builderOf(t, Node{NoCPUQuota: true})
	require.Zero(t, none.sandboxResources(pod).CpuPeriod)
	require.Zero(t, none.sandboxResources(pod).CpuQuota)
}

// 6.7, swap.
func TestSwap(t *testing.T) {
	node := Node{CgroupV2: true, SwapController: true, LimitedSwap: true, MemoryCapacity: 1 << 30, SwapCapacity: 1 << 28, SingleProcessOOMKill: true}
	burstable := v1.ResourceRequirements{Requests: quantities("memory", "256Mi"), Limits: quantities("memory", "512Mi")}
	for _, tc := range []struct {
		name   string
		node   func(*Node)
		pod    func(*v1.Pod)
		v2     string
		memsw  int64
		memory int64
	}{
		{name: "a quarter of the memory", v2: "67108864", memory: 512 << 20},
		{name: "not limited", node: func(n *Node) { n.LimitedSwap = false }, v2: "0", memory: 512 << 20},
		{name: "no controller", node: func(n *Node) { n.SwapController = false }, memory: 512 << 20},
		{name: "v1", node: func(n *Node) { n.CgroupV2 = false }, memsw: 512 << 20, memory: 512 << 20},
		{name: "critical", pod: func(p *v1.Pod) { p.Spec.Priority = new(int32(2000000000)) }, v2: "0", memory: 512 << 20},
		{name: "best effort", pod: func(p *v1.Pod) { p.Spec.Containers[0].Resources = v1.ResourceRequirements{} }, v2: "0"},
		{name: "request is limit", pod: func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities("memory", "512Mi", "cpu", "1") }, v2: "0", memory: 512 << 20},
		{name: "no memory asked for", pod: func(p *v1.Pod) {
			p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: quantities("cpu", "1")}
		}, v2: "0"},
		{name: "as much as the node", node: func(n *Node) { n.MemoryCapacity = 256 << 20 }, v2: "268435456", memory: 512 << 20},
		{name: "as much as the smallest node", node: func(n *Node) { n.MemoryCapacity = 1 }, pod: func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = quantities("memory", "1")
		}, v2: "268435456", memory: 512 << 20},
		{name: "none of an unknown node", node: func(n *Node) { n.MemoryCapacity = 0 }, pod: func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = quantities("cpu", "1")
		}, v2: "0", memory: 512 << 20},
		{name: "more than the node", pod: func(p *v1.Pod) {
			p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: quantities("memory", "2Gi")}
		}, v2: "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, pod := node, testPod("a")
			pod.Spec.Containers[0].Resources = burstable
			if tc.node != nil {
				tc.node(&n)
			}
			if tc.pod != nil {
				tc.pod(pod)
			}
			got := builderOf(t, n).ContainerResources(pod, &pod.Spec.Containers[0])
			require.Equal(t, tc.v2, got.Unified["memory.swap.max"])
			require.Equal(t, tc.memsw, got.MemorySwapLimitInBytes)
			require.Equal(t, tc.memory, got.MemoryLimitInBytes)
		})
	}
}

// KEP-2570.
func TestMemoryQoS(t *testing.T) {
	node := Node{CgroupV2: true, SingleProcessOOMKill: true, Allocatable: quantities("memory", "1000Mi"), MemoryQoS: MemoryQoS{Enabled: true}}
	get := func(n Node, request, limit string) map[string]string {
		pod := testPod("a")
		r := &pod.Spec.Containers[0].Resources
		if request != "" {
			r.Requests = quantities("memory", request, "cpu", "1")
		}
		if limit != "" {
			r.Limits = quantities("memory", limit, "cpu", "1")
		}
		return builderOf(t, n).ContainerResources(pod, &pod.Spec.Containers[0]).Unified
	}
	off := map[string]string{"memory.min": "0", "memory.low": "0"}
	require.Equal(t, map[string]string{"memory.min": "0", "memory.low": "0", "memory.high": strconv.Itoa(190 << 20)}, get(node, "100Mi", "200Mi"))
	require.Equal(t, map[string]string{"memory.min": "0", "memory.low": "0", "memory.high": strconv.Itoa(910 << 20)}, get(node, "100Mi", ""), "the node's memory stands in")
	require.Equal(t, off, get(node, "100Mi", "100Mi"))
	require.Equal(t, off, get(node, "", ""))
	require.Equal(t, strconv.Itoa(4096), get(node, "1", "4597")["memory.high"], "down to a page")
	require.NotContains(t, get(node, "5000", "5500"), "memory.high", "there is no page between")
	require.NotContains(t, get(node, "4096", "4097"), "memory.high", "nor one above the request")
	node.MemoryQoS.TieredReservation = true
	require.Equal(t, map[string]string{"memory.min": strconv.Itoa(100 << 20)}, get(node, "100Mi", "100Mi"))
	require.Equal(t, strconv.Itoa(100<<20), get(node, "100Mi", "200Mi")["memory.low"])
	require.NotContains(t, get(node, "100Mi", "200Mi"), "memory.min")
	require.Equal(t, off, get(node, "", ""), "nothing to protect")
	node.MemoryQoS.ThrottlingFactor = 0.5
	require.Equal(t, strconv.Itoa(150<<20), get(node, "100Mi", "200Mi")["memory.high"])
	node.CgroupV2 = false
	require.Nil(t, get(node, "100Mi", "200Mi"))
}

// A sidecar's OOM score is never higher than the highest of the containers that it serves.
func TestSidecarOOMScore(t *testing.T) {
	pod := testPod("a", "b")
	pod.Spec.InitContainers = []v1.Container{
		{Name: "side", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}, {Name: "init"},
	}
	pod.Spec.Containers[0].Resources.Requests = quantities("memory", "512Mi")
	pod.Spec.Containers[1].Resources.Requests = quantities("memory", "256Mi")
	score := func(c v1.Container) int64 { return oomScore(pod, &c, 1<<30) }
	require.EqualValues(t, 750, score(pod.Spec.InitContainers[0]))
	require.EqualValues(t, 999, score(pod.Spec.InitContainers[1]))
	pod.Spec.InitContainers[0].Resources.Requests = quantities("memory", "768Mi")
	require.EqualValues(t, 250, score(pod.Spec.InitContainers[0]), "its own if that is better")
	pod.Spec.InitContainers[0].Resources.Requests = nil
	stray := pod.Spec.InitContainers[0]
	stray.Name = "stray"
	require.EqualValues(t, 999, score(stray), "a regular container with a policy is none")
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: quantities("memory", "1Gi")}
	require.EqualValues(t, 1000-250-62, score(pod.Spec.InitContainers[0]), "256Mi and 256Mi/4 of 1Gi, rounded down each")
}

// N33: the larger a container's share of the node's memory, the lower its OOM score, within
// bounds.
func TestOOMScore(t *testing.T) {
	const capacity = 16 << 30
	pod := testPod("a")
	score := func(request string) int64 {
		pod.Spec.Containers[0].Resources.Requests = quantities("memory", request)
		return oomScore(pod, &pod.Spec.Containers[0], capacity)
	}
	for request, want := range map[string]int64{"4Gi": 750, "1": 999, "16236Mi": 10, "16Gi": 3, "40Gi": 3, "8191Pi": 3, "9223372036854775807": 3} {
		require.Equal(t, want, score(request), request)
	}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: quantities("memory", "8E")}
	require.EqualValues(t, 3, score("1"), "absurd for all of the pod")
	pod.Spec.Resources = nil
	pod.Spec.PriorityClassName, pod.Spec.Priority = "system-node-critical", new(int32(2000001000))
	require.EqualValues(t, -997, score("1"))
	pod.Spec.PriorityClassName, pod.Spec.Priority = "", nil
	require.EqualValues(t, 3, oomScore(pod, &pod.Spec.Containers[0], 1), "all of a tiny node")
	require.EqualValues(t, 999, oomScore(pod, &pod.Spec.Containers[0], 0), "of an unknown node")
	all := quantities("cpu", "1", "memory", "1Gi")
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: all, Limits: all}
	require.EqualValues(t, -997, oomScore(pod, &pod.Spec.Containers[0], capacity), "Guaranteed")
}

// 6.7: settings of nodes that are not in the golden records, and absurd limits.
func TestResourcesOfNodes(t *testing.T) {
	pod := testPod("a")
	c := &pod.Spec.Containers[0]
	c.Resources.Limits = quantities("memory", "1Mi")
	got := builderOf(t, Node{NoCPUQuota: true, CgroupV2: true, SwapController: true}).ContainerResources(pod, c)
	require.Zero(t, got.CpuPeriod)
	require.Equal(t, map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"}, got.Unified)
	node := builderOf(t, Node{NoCPUQuota: true, SwapController: true, HugePageSizes: []string{"64KB", "2MB", "1GB"}})
	require.EqualValues(t, 1<<20, node.ContainerResources(pod, c).MemorySwapLimitInBytes)
	pod.Spec.Resources = &v1.ResourceRequirements{Limits: quantities("hugepages-2Mi", "8Mi", "hugepages-1Gi", "1Gi")}
	c.Resources.Limits = quantities("hugepages-2Mi", "4Mi", "hugepages-64Ki", "-1Ki", "hugepages-", "1", "hugepages-x", "1")
	require.Equal(t, []*runtimeapi.HugepageLimit{
		{PageSize: "64KB"}, {PageSize: "2MB", Limit: 4 << 20}, {PageSize: "1GB", Limit: 1 << 30},
	}, node.ContainerResources(pod, c).HugepageLimits)
}
