package cgroups

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func list(kv ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(kv); i += 2 {
		out[v1.ResourceName(kv[i])] = resource.MustParse(kv[i+1])
	}
	return out
}

func container(requests, limits v1.ResourceList) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func sidecar(requests, limits v1.ResourceList) v1.Container {
	c, always := container(requests, limits), v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func TestShares(t *testing.T) {
	for milli, want := range map[int64][2]uint64{
		0: {2, 1}, -5: {2, 1}, 1: {2, 1}, 2: {2, 1}, 100: {102, 4}, 250: {256, 10}, 1000: {1024, 39}, 4000: {4096, 157},
		256_000: {262144, 10000}, 1_000_000: {262144, 10000},
	} {
		require.Equal(t, want, [2]uint64{Shares(milli), Weight(Shares(milli))}, "%d", milli)
	}
	require.EqualValues(t, 1, Weight(0))
	require.EqualValues(t, 10000, Weight(1<<40))
}

func TestQuota(t *testing.T) {
	require.EqualValues(t, 0, Quota(0, defaultPeriod))
	require.EqualValues(t, 1000, Quota(1, defaultPeriod), "the kernel takes no less")
	require.EqualValues(t, 50_000, Quota(500, defaultPeriod))
	require.EqualValues(t, 2_500, Quota(500, 5*time.Millisecond))
}

func TestForPod(t *testing.T) {
	none := map[string]int64{"2MB": 0, "1GB": 0}
	const period = 100_000
	for _, test := range []struct {
		name string
		cfg  Config
		spec v1.PodSpec
		want Values
	}{
		{"BestEffort", Config{}, v1.PodSpec{Containers: []v1.Container{{}}}, Values{Shares: 2}},
		{
			"BestEffort with overhead", Config{},
			v1.PodSpec{Containers: []v1.Container{{}}, Overhead: list("cpu", "250m", "memory", "64Mi")}, Values{Shares: 2},
		},
		{
			"BestEffort with huge pages of the node", Config{HugePageSizes: []string{"2MB", "1GB"}},
			v1.PodSpec{Containers: []v1.Container{{}}}, Values{Shares: 2, HugePages: none},
		},
		{
			"one container without a limit (N20)", Config{},
			v1.PodSpec{Containers: []v1.Container{container(list("cpu", "250m"), nil), container(nil, list("memory", "64Mi"))}},
			Values{Shares: 256},
		},
		{
			"all have a limit of CPU, not all of memory", Config{PodPids: 100},
			v1.PodSpec{Containers: []v1.Container{
				container(list("cpu", "100m"), list("cpu", "500m")), container(nil, list("cpu", "1", "memory", "1Gi")),
			}},
			Values{Shares: 102, Quota: 150_000, Period: period, Pids: 100},
		},
		{
			"an init container without a limit", Config{},
			v1.PodSpec{
				InitContainers: []v1.Container{container(list("cpu", "1"), nil)},
				Containers:     []v1.Container{container(list("cpu", "100m"), list("cpu", "500m"))},
			},
			Values{Shares: 1024},
		},
		{
			"Guaranteed", Config{Period: 50 * time.Millisecond},
			v1.PodSpec{Containers: []v1.Container{container(list("cpu", "2", "memory", "1Gi"), list("cpu", "2", "memory", "1Gi"))}},
			Values{Shares: 2048, Quota: 100_000, Period: 50_000, Memory: 1 << 30},
		},
		{
			"the least there is", Config{PodPids: 1},
			v1.PodSpec{Containers: []v1.Container{container(list("cpu", "1m"), list("cpu", "1m"))}},
			Values{Shares: 2, Quota: 1000, Period: period, Pids: 1},
		},
		{
			"no limit of processes", Config{PodPids: -1},
			v1.PodSpec{Containers: []v1.Container{{}}}, Values{Shares: 2},
		},
		{
			"a quota that is not enforced", Config{NoQuota: true},
			v1.PodSpec{Containers: []v1.Container{container(list("cpu", "2", "memory", "1Gi"), list("cpu", "2", "memory", "1Gi"))}},
			Values{Shares: 2048, Quota: Unlimited, Period: period, Memory: 1 << 30},
		},
		{
			"CPUs of its own", Config{ExclusiveCPUs: func(*v1.Pod) bool { return true }},
			v1.PodSpec{Containers: []v1.Container{container(list("cpu", "2", "memory", "1Gi"), list("cpu", "2", "memory", "1Gi"))}},
			Values{Shares: 2048, Quota: Unlimited, Period: period, Memory: 1 << 30},
		},
		{
			"none of its own", Config{ExclusiveCPUs: func(*v1.Pod) bool { return false }},
			v1.PodSpec{Containers: []v1.Container{container(list("cpu", "2", "memory", "1Gi"), list("cpu", "2", "memory", "1Gi"))}},
			Values{Shares: 2048, Quota: 200_000, Period: period, Memory: 1 << 30},
		},
		{
			"a sidecar counts with the containers, an init container alone", Config{},
			v1.PodSpec{
				InitContainers: []v1.Container{
					sidecar(list("cpu", "100m"), list("cpu", "100m", "memory", "10Mi")),
					container(list("cpu", "300m"), list("cpu", "300m", "memory", "500Mi")),
				},
				Containers: []v1.Container{container(list("cpu", "200m"), list("cpu", "400m", "memory", "20Mi"))},
			},
			Values{Shares: 409, Quota: 50_000, Period: period, Memory: 510 << 20},
		},
		{
			"limits of the pod as a whole, and its overhead", Config{},
			v1.PodSpec{
				Resources:  &v1.ResourceRequirements{Requests: list("cpu", "1"), Limits: list("cpu", "2", "memory", "100Mi")},
				Containers: []v1.Container{{}}, Overhead: list("cpu", "250m", "memory", "10Mi"),
			},
			Values{Shares: 1280, Quota: 225_000, Period: period, Memory: 110 << 20},
		},
		{
			"huge pages", Config{HugePageSizes: []string{"2MB", "1GB"}},
			v1.PodSpec{Containers: []v1.Container{container(list("cpu", "1"), list("hugepages-2Mi", "8Mi", "hugepages-64Ki", "64Ki"))}},
			Values{Shares: 1024, HugePages: map[string]int64{"2MB": 8 << 20, "1GB": 0}},
		},
	} {
		got := ForPod(test.cfg, &v1.Pod{Spec: test.spec})
		require.True(t, test.want.Equal(got), "%s: %+v, want %+v", test.name, got, test.want)
	}
}

func TestForClass(t *testing.T) {
	burstable := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container(list("cpu", "250m"), nil)}}}
	guaranteed := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container(list("cpu", "2", "memory", "1Gi"), list("cpu", "2", "memory", "1Gi"))}}}
	pods := []*v1.Pod{burstable, guaranteed, burstable, {}}
	require.True(t, Values{Shares: 512}.Equal(ForClass(Config{}, v1.PodQOSBurstable, pods)))
	require.True(t, Values{Shares: 2}.Equal(ForClass(Config{}, v1.PodQOSBestEffort, pods)))
	require.True(t, Values{Shares: 2}.Equal(ForClass(Config{}, v1.PodQOSBurstable, nil)))
	require.Equal(t, map[string]int64{"2MB": 1 << 62}, ForClass(Config{HugePageSizes: []string{"2MB"}}, v1.PodQOSBestEffort, pods).HugePages)
}

// N22: reservations reduce the values of the pods' cgroup; eviction thresholds do not.
func TestForNode(t *testing.T) {
	left, err := Without(list("cpu", "4", "memory", "8Gi", "pid", "1000", "hugepages-2Mi", "16Mi", "pods", "110"),
		list("memory", "1Gi", "cpu", "500m", "example.com/none", "1"), list("pid", "100", "cpu", "500m"))
	require.NoError(t, err)
	require.Equal(t, Values{Shares: 3072, Memory: 7 << 30, Pids: 900, HugePages: map[string]int64{"2MB": 16 << 20}}, ForNode(left))
	require.Equal(t, Values{}, ForNode(nil))

	_, err = Without(list("memory", "8Gi"), list("memory", "5Gi"), list("memory", "4Gi"))
	require.EqualError(t, err, "cgroups: the reservations of memory exceed the node's capacity of 8Gi")
	_, err = Without(list("memory", "8Gi"), list("memory", "8Gi"))
	require.NoError(t, err)
}

func TestHugePageSize(t *testing.T) {
	for name, want := range map[v1.ResourceName]string{
		"hugepages-2Mi": "2MB", "hugepages-1Gi": "1GB", "hugepages-64Ki": "64KB", "hugepages-1536Ki": "1536KB", "hugepages-100": "100B",
		"memory": "", "2Mi": "", "hugepages-": "", "hugepages-x": "", "hugepages-0": "", "hugepages--2Mi": "",
	} {
		size, ok := HugePageSize(name)
		require.Equal(t, want, size, name)
		require.Equal(t, want != "", ok, name)
	}
}

func TestPageSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		1: "1B", 1 << 10: "1KB", 2 << 20: "2MB", 1536: "1536B", 1536 << 10: "1536KB", 1 << 50: "1PB", 1 << 60: "1024PB", 0: "0B", -1024: "-1024B",
	} {
		require.Equal(t, want, pageSize(bytes))
	}
}

func TestFiles(t *testing.T) {
	all := Values{Shares: 256, Quota: 50_000, Period: 100_000, Memory: 1 << 20, Pids: 17, HugePages: map[string]int64{"2MB": 0, "1GB": 1 << 30}}
	none := Values{Quota: Unlimited, Memory: Unlimited, Pids: Unlimited}
	for _, test := range []struct {
		values  Values
		version Version
		want    map[string]string
	}{
		{all, V1, map[string]string{
			"cpu/cpu.shares": "256", "cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000", "memory/memory.limit_in_bytes": "1048576",
			"pids/pids.max": "17", "hugetlb/hugetlb.2MB.limit_in_bytes": "0", "hugetlb/hugetlb.1GB.limit_in_bytes": "1073741824",
		}},
		{all, V2, map[string]string{
			"cpu.weight": "10", "cpu.max": "50000 100000", "memory.max": "1048576", "pids.max": "17", "hugetlb.2MB.max": "0", "hugetlb.1GB.max": "1073741824",
		}},
		{none, V1, map[string]string{"cpu/cpu.cfs_quota_us": "-1", "memory/memory.limit_in_bytes": "-1", "pids/pids.max": "max"}},
		{none, V2, map[string]string{"cpu.max": "max 100000", "memory.max": "max", "pids.max": "max"}},
		{Values{Shares: 1, Period: 1}, V1, map[string]string{"cpu/cpu.shares": "1", "cpu/cpu.cfs_period_us": "1"}},
		{Values{Shares: 1, Period: 1}, V2, map[string]string{"cpu.weight": "1", "cpu.max": "max 1"}},
		{Values{Quota: 1, Memory: 1, Pids: 1}, V1, map[string]string{"cpu/cpu.cfs_quota_us": "1", "memory/memory.limit_in_bytes": "1", "pids/pids.max": "1"}},
		{Values{Quota: 1, Memory: 1, Pids: 1}, V2, map[string]string{"cpu.max": "1 100000", "memory.max": "1", "pids.max": "1"}},
		{Values{Period: 5000}, V2, map[string]string{"cpu.max": "max 5000"}},
		{Values{}, V1, map[string]string{}},
		{Values{}, V2, map[string]string{}},
	} {
		require.Equal(t, test.want, test.values.Files(test.version))
	}
}

func TestEqual(t *testing.T) {
	base := Values{Shares: 1, Quota: 1, Period: 1, Memory: 1, Pids: 1, HugePages: map[string]int64{"2MB": 1}}
	require.True(t, base.Equal(base))
	for _, other := range []func(*Values){
		func(v *Values) { v.Shares++ }, func(v *Values) { v.Quota++ }, func(v *Values) { v.Period++ }, func(v *Values) { v.Memory++ },
		func(v *Values) { v.Pids++ }, func(v *Values) { v.HugePages = nil },
	} {
		changed := base
		other(&changed)
		require.False(t, base.Equal(changed), "%+v", changed)
	}
}
