package cgroups

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/cgroups"
)

// Controllers that limit pods are required. Optional ones may be missing.
func TestNeededV2(t *testing.T) {
	for root, want := range map[string]string{
		"cpuset cpu io memory hugetlb pids rdma": "cpu memory pids cpuset hugetlb",
		"cpu io memory pids":                     "cpu memory pids",
		"cpu memory pids hugetlb":                "cpu memory pids hugetlb",
		"cpuset cpu memory pids":                 "cpu memory pids cpuset",
	} {
		got, err := neededV2(strings.Fields(root))
		require.NoError(t, err, root)
		require.Equal(t, want, strings.Join(got, " "), root)
	}
	for _, lacking := range controllersV2 {
		_, err := neededV2(strings.Fields(strings.ReplaceAll("cpu memory pids", lacking, "")))
		require.EqualError(t, err, "cgroups: the kernel has no controller "+lacking+" in /sys/fs/cgroup")
	}
	_, err := neededV2(nil)
	require.ErrorContains(t, err, "cpu in /sys/fs/cgroup\ncgroups: the kernel has no controller memory", "all at once")
}

// A controller is available only if it is mounted, and not if there is a plain folder of its name. A
// missing optional controller takes away its limits, and is reported.
func TestMountedControllers(t *testing.T) {
	const root = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
	mount := func(at, options string) string {
		return "32 31 0:29 / " + at + " rw,relatime shared:9 master:1 - cgroup cgroup rw," + options + "\n"
	}
	const all = "cpu,cpuacct,cpuset,memory"
	for name, c := range map[string]struct {
		mounts      string
		has, hasNot []string
	}{
		"a folder without mount": {root, nil, []string{"cpu", "hugetlb", "tmpfs"}},
		"one each":               {root + mount("/sys/fs/cgroup/cpu", "cpu") + mount("/sys/fs/cgroup/hugetlb", "hugetlb"), []string{"cpu", "hugetlb"}, []string{"pids"}},
		"several in one":         {root + mount("/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"), []string{"cpu", "cpuacct"}, []string{"hugetlb"}},
		"at another place":       {root + mount("/mnt/hugetlb", "hugetlb"), nil, []string{"hugetlb"}},
		"another file system":    {root + "32 31 0:29 / /sys/fs/cgroup/hugetlb rw - tmpfs cgroup rw,hugetlb\n", nil, []string{"hugetlb"}},
		"malformed":              {"x\n - cgroup\n1 2 3 4 /sys/fs/cgroup/a - cgroup\n", nil, []string{"cpu"}},
	} {
		h := &Host{version: cgroups.V1}
		h.mounted, h.hierarchies = mountedV1(c.mounts)
		for _, controller := range c.has {
			require.True(t, h.has(controller), "%s: %s", name, controller)
		}
		for _, controller := range c.hasNot {
			require.False(t, h.has(controller), "%s: %s", name, controller)
		}
	}
	h := &Host{version: cgroups.V1}
	h.mounted, h.hierarchies = mountedV1(mount("/sys/fs/cgroup/all", all))
	require.Equal(t, []string{"/sys/fs/cgroup/all"}, h.hierarchies)
	require.Contains(t, h.Missing(), "controller pids is not available: the number of processes of pods is not limited (podPidsLimit)")
	limits := h.resources(cgroups.Values{Pids: 9, HugePages: map[string]int64{"2MB": 1}})
	require.Nil(t, limits.PidsLimit)
	require.Empty(t, limits.HugetlbLimit)
	h.mounted, _ = mountedV1(mount("/sys/fs/cgroup/all", all+",pids,hugetlb"))
	require.Empty(t, h.Missing())
	require.EqualValues(t, 9, *h.resources(cgroups.Values{Pids: 9}).PidsLimit)
}
