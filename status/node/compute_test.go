package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 123) }

func whole(now time.Time) Facts {
	return Facts{
		Now:       now,
		Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeHostName, Address: "n"}},
		Machine: &Machine{
			ID: "machine", SystemUUID: "system", BootID: "boot", Cores: 4, Memory: 8 << 30, Storage: 100 << 30, Swap: 1 << 30,
			HugePages: map[int64]int64{2 << 20: 64 << 20, 1 << 30: 0},
		},
		Versions:     &Versions{Kernel: "6.1", OSImage: "Debian", OS: "linux", Architecture: "amd64", Runtime: "containerd://2.2.1", Agent: "v1.36.3"},
		Port:         10250,
		Images:       []Image{{Tags: []string{"a:1"}, Bytes: 10}},
		Handlers:     []Handler{{Name: "runc"}, {UserNamespaces: true}},
		Features:     &Features{SupplementalGroupsPolicy: true},
		Declared:     []string{"B", "A"},
		Pressure:     &Pressure{},
		VolumesInUse: []v1.UniqueVolumeName{"b", "a"},
	}
}

func with(f Facts, change func(*Facts)) Facts {
	change(&f)
	return f
}

func quantities(list v1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, q := range list {
		out[string(name)] = q.String()
	}
	return out
}

func TestCompute(t *testing.T) {
	got := Compute(nil, whole(at(0)))
	require.Equal(t, map[string]string{
		"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi", "hugepages-2Mi": "64Mi", "hugepages-1Gi": "0",
	}, quantities(got.Capacity))
	require.Equal(t, map[string]string{
		"cpu": "4", "memory": "8128Mi", "pods": "110", "ephemeral-storage": "100Gi", "hugepages-2Mi": "64Mi", "hugepages-1Gi": "0",
	}, quantities(got.Allocatable), "huge pages do not count as memory")
	swap, yes, no := int64(1<<30), true, false
	require.Equal(t, v1.NodeSystemInfo{
		MachineID: "machine", SystemUUID: "system", BootID: "boot", KernelVersion: "6.1", OSImage: "Debian",
		ContainerRuntimeVersion: "containerd://2.2.1", KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
		Swap: &v1.NodeSwapStatus{Capacity: &swap},
	}, got.NodeInfo)
	require.Equal(t, whole(at(0)).Addresses, got.Addresses)
	require.EqualValues(t, 10250, got.DaemonEndpoints.KubeletEndpoint.Port)
	require.Equal(t, []v1.ContainerImage{{Names: []string{"a:1"}, SizeBytes: 10}}, got.Images)
	require.Equal(t, []v1.NodeRuntimeHandler{
		{Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &no, UserNamespaces: &yes}},
		{Name: "runc", Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &no, UserNamespaces: &no}},
	}, got.RuntimeHandlers)
	require.Equal(t, &v1.NodeFeatures{SupplementalGroupsPolicy: &yes}, got.Features)
	require.Equal(t, []string{"A", "B"}, got.DeclaredFeatures)
	require.Equal(t, []v1.UniqueVolumeName{"a", "b"}, got.VolumesInUse)
	var kinds []v1.NodeConditionType
	for _, c := range got.Conditions {
		kinds = append(kinds, c.Type)
		require.Equal(t, at(0).Unix(), c.LastHeartbeatTime.Unix())
		require.Equal(t, at(0).Unix(), c.LastTransitionTime.Unix())
		require.Zero(t, c.LastHeartbeatTime.Nanosecond(), "the precision of the API")
	}
	require.Equal(t, []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure, v1.NodeReady}, kinds, "Ready is the last condition")
	require.True(t, Ready(got))
}

// Unknown facts, and data of other components, leave the status unchanged.
func TestUnknownFactsChangeNothing(t *testing.T) {
	old := Compute(nil, whole(at(0)))
	old.Conditions = append(old.Conditions, v1.NodeCondition{Type: "NetworkUnavailable", Status: v1.ConditionFalse})
	old.Capacity["example.com/dongle"] = resource.MustParse("3")
	old.VolumesAttached = []v1.AttachedVolume{{Name: "a"}}
	before := old.DeepCopy()

	got := Compute(old, Facts{Now: at(60), Port: 10250})
	require.Equal(t, before, old, "the old status is not changed")
	require.EqualValues(t, 3, got.Allocatable.Name("example.com/dongle", resource.DecimalSI).Value(), "all of the capacity is allocatable")
	delete(got.Allocatable, "example.com/dongle")
	require.False(t, Changed(old, got))
	require.Equal(t, at(60).Unix(), Condition(got, v1.NodeReady).LastHeartbeatTime.Unix())

	require.False(t, Ready(Compute(nil, Facts{Now: at(0)})))
	got = Compute(old, Facts{Now: at(60), VolumesInUse: []v1.UniqueVolumeName{}, Images: []Image{}, Handlers: []Handler{}, Declared: []string{}, Addresses: []v1.NodeAddress{}})
	require.Empty(t, got.VolumesInUse, "an empty list is not unknown")
	require.Empty(t, got.Images)
	require.Empty(t, got.RuntimeHandlers)
	require.Empty(t, got.Addresses)
	require.Empty(t, got.DeclaredFeatures)

	withoutRuntime := with(whole(at(60)), func(f *Facts) { v := *f.Versions; v.Runtime = ""; f.Versions = &v })
	require.Equal(t, "containerd://2.2.1", Compute(old, withoutRuntime).NodeInfo.ContainerRuntimeVersion)

	old.NodeInfo.KubeProxyVersion = "v1.30.0" //lint:ignore SA1019 what an older agent has left
	require.Equal(t, Compute(nil, whole(at(0))).NodeInfo, Compute(old, whole(at(0))).NodeInfo, "the kube-proxy version is removed")
}

func TestResources(t *testing.T) {
	reserve := func(list v1.ResourceList) func(*Facts) { return func(f *Facts) { f.Reserved = list } }
	plugins := func(p map[v1.ResourceName]Amount) func(*Facts) { return func(f *Facts) { f.Plugins = p } }
	for _, c := range []struct {
		name                  string
		change                func(*Facts)
		resource              v1.ResourceName
		capacity, allocatable string
	}{
		{"N22: reserved", reserve(v1.ResourceList{"memory": resource.MustParse("1124Mi")}), "memory", "8Gi", "7068Mi"},
		{"more reserved than the capacity", reserve(v1.ResourceList{"cpu": resource.MustParse("4500m")}), "cpu", "4", "0"},
		{"parts of a processor", reserve(v1.ResourceList{"cpu": resource.MustParse("100m")}), "cpu", "4", "3900m"},
		{"reserved without a capacity", reserve(v1.ResourceList{"example.com/x": resource.MustParse("1")}), "example.com/x", "", ""},
		{"huge pages beyond the memory", func(f *Facts) { f.Machine.HugePages = map[int64]int64{2 << 20: 9 << 30} }, "memory", "8Gi", "0"},
		{"pods per core", func(f *Facts) { f.PodsPerCore = 5 }, "pods", "20", "20"},
		{"one pod per core", func(f *Facts) { f.PodsPerCore = 1 }, "pods", "4", "4"},
		{"pods per core beyond the limit", func(f *Facts) { f.PodsPerCore, f.MaxPods = 50, 7 }, "pods", "7", "7"},
		{"no pods", func(f *Facts) { f.MaxPods = -1 }, "pods", "0", "0"},
		{"a device", plugins(map[v1.ResourceName]Amount{"example.com/gpu": {4, 3}}), "example.com/gpu", "4", "3"},
		{"a device whose plugin does not run", plugins(map[v1.ResourceName]Amount{"example.com/gpu": {4, 0}}), "example.com/gpu", "4", "0"},
		{"a removed device", plugins(map[v1.ResourceName]Amount{"example.com/gpu": {}}), "example.com/gpu", "0", "0"},
		{"more devices than the capacity", plugins(map[v1.ResourceName]Amount{"example.com/gpu": {1, 2}}), "example.com/gpu", "1", "1"},
		{"a plugin with negative counts", plugins(map[v1.ResourceName]Amount{"example.com/gpu": {-1, -1}}), "example.com/gpu", "0", "0"},
		{"one byte of storage", func(f *Facts) { f.Machine.Storage = 1 }, "ephemeral-storage", "1", "1"},
		{"no storage is counted", func(f *Facts) { f.NoLocalStorage = true }, "ephemeral-storage", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Without huge pages, except in their own case.
			f := with(whole(at(0)), func(f *Facts) { f.Machine.HugePages = nil })
			c.change(&f)
			got := Compute(nil, f)
			show := func(list v1.ResourceList) string {
				if q, ok := list[c.resource]; ok {
					return q.String()
				}
				return ""
			}
			require.Equal(t, c.capacity, show(got.Capacity))
			require.Equal(t, c.allocatable, show(got.Allocatable))
			require.True(t, Ready(got))
			for name := range got.Allocatable {
				require.Contains(t, got.Capacity, name)
			}
		})
	}
}

// After a boot with other sizes of huge pages, the old sizes are removed. Allocatable resources
// without a capacity are removed, too. The capacity of an unknown plugin stays until ZeroExtended.
func TestResourcesAfterReboot(t *testing.T) {
	old := Compute(nil, whole(at(0)))
	old.Allocatable["example.com/gone"] = resource.MustParse("1")
	old.Capacity["example.com/dongle"] = resource.MustParse("3")
	f := whole(at(1))
	f.Machine.HugePages = map[int64]int64{64 << 10: 1 << 20}
	f.Machine.Swap = 0
	got := Compute(old, f)
	require.Contains(t, got.Capacity, v1.ResourceName("hugepages-64Ki"))
	require.NotContains(t, got.Capacity, v1.ResourceName("hugepages-2Mi"))
	require.NotContains(t, got.Allocatable, v1.ResourceName("hugepages-2Mi"))
	require.NotContains(t, got.Allocatable, v1.ResourceName("example.com/gone"))
	require.Nil(t, got.NodeInfo.Swap)
	f.Machine.Swap = 1
	require.EqualValues(t, 1, *Compute(old, f).NodeInfo.Swap.Capacity)
	require.Equal(t, "3", quantities(got.Capacity)["example.com/dongle"])

	ZeroExtended(got)
	require.Equal(t, "0", quantities(got.Capacity)["example.com/dongle"])
	require.Equal(t, "0", quantities(got.Allocatable)["example.com/dongle"])
	require.Equal(t, "8Gi", quantities(got.Capacity)["memory"])
	ZeroExtended(&v1.NodeStatus{})
}

// While the machine is unknown, plugins' resources do not become allocatable.
func TestAllocatableWithoutCapacity(t *testing.T) {
	plugins := &Facts{Plugins: map[v1.ResourceName]Amount{"example.com/gpu": {4, 3}}}
	for _, before := range []v1.ResourceList{nil, {"cpu": resource.MustParse("2")}} {
		status := v1.NodeStatus{Allocatable: before}
		SetAllocatable(&status, plugins)
		require.Equal(t, v1.NodeStatus{Allocatable: before}, status)
		setPlugins(&status, plugins)
		SetAllocatable(&status, plugins)
		require.Equal(t, map[string]string{"example.com/gpu": "4"}, quantities(status.Capacity))
		require.Equal(t, map[string]string{"example.com/gpu": "3"}, quantities(status.Allocatable))
	}
}

func TestIsExtended(t *testing.T) {
	for name, want := range map[v1.ResourceName]bool{
		"example.com/gpu": true, "cpu": false, "hugepages-2Mi": false, "kubernetes.io/x": false, "node.kubernetes.io/x": false,
		"attachable-volumes-csi-x": false, "requests.example.com/gpu": false,
	} {
		require.Equal(t, want, isExtended(name), name)
	}
}

// N42: the largest images come first, 50 by default, with up to five names, digests before tags.
func TestImages(t *testing.T) {
	f := whole(at(0))
	f.Images = nil
	for i := range 60 {
		f.Images = append(f.Images, Image{Tags: []string{fmt.Sprintf("i:%02d", i)}, Bytes: int64(i%30) * 100})
	}
	got := Compute(nil, f).Images
	require.Len(t, got, 50)
	for i := 1; i < len(got); i++ {
		require.GreaterOrEqual(t, got[i-1].SizeBytes, got[i].SizeBytes)
	}
	require.Equal(t, []string{"i:29"}, got[0].Names, "equally large images in a fixed order")
	f.MaxImages = -1
	require.Len(t, Compute(nil, f).Images, 60)
	f.MaxImages = 3
	require.Len(t, Compute(nil, f).Images, 3)

	f.Images = []Image{{Digests: []string{"d1", "d2", "d3"}, Tags: []string{"t1", "t2", "t3"}}}
	require.Equal(t, []string{"d1", "d2", "d3", "t1", "t2"}, Compute(nil, f).Images[0].Names)
}

func TestCustomSetters(t *testing.T) {
	mine := func(status *v1.NodeStatus, f *Facts) {
		SetCondition(status, f, v1.NodeCondition{Type: "example.com/Tunnel", Status: v1.ConditionTrue})
	}
	got := Compute(nil, whole(at(0)), append(Setters(), mine)...)
	require.NotNil(t, Condition(got, "example.com/Tunnel"))
	require.True(t, Ready(got))
	require.Equal(t, &v1.NodeStatus{}, Compute(nil, whole(at(0)), func(*v1.NodeStatus, *Facts) {}))
}

func TestChanged(t *testing.T) {
	a := Compute(nil, whole(at(0)))
	require.False(t, Changed(a, Compute(a, whole(at(500)))), "heartbeats are ignored")
	require.True(t, Changed(nil, a))
	require.False(t, Changed(nil, nil))
	require.False(t, Changed(nil, &v1.NodeStatus{Images: []v1.ContainerImage{}}))
	b := a.DeepCopy()
	b.Conditions[0], b.Conditions[1] = b.Conditions[1], b.Conditions[0]
	require.False(t, Changed(a, b), "the order of conditions is ignored")
	b.Capacity["cpu"] = resource.MustParse("4000m")
	require.False(t, Changed(a, b), "the notation of quantities is ignored")
	for name, change := range map[string]func(*v1.NodeStatus){
		"message":    func(s *v1.NodeStatus) { s.Conditions[0].Message = "x" },
		"transition": func(s *v1.NodeStatus) { s.Conditions[0].LastTransitionTime = metav1.NewTime(at(9)) },
		"one less":   func(s *v1.NodeStatus) { s.Conditions = s.Conditions[1:] },
		"capacity":   func(s *v1.NodeStatus) { s.Capacity["cpu"] = resource.MustParse("5") },
		"handler":    func(s *v1.NodeStatus) { s.RuntimeHandlers = s.RuntimeHandlers[1:] },
	} {
		b := a.DeepCopy()
		change(b)
		require.True(t, Changed(a, b), name)
		require.True(t, Changed(b, a), name)
	}
}
