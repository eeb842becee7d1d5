package cgroups

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
