package emptydir

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func podWith(limits ...string) *v1.Pod {
	pod := &v1.Pod{}
	for _, l := range limits {
		c := v1.Container{}
		if l != "" {
			c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(l)}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// V12: the smallest of what there is.
func TestMemorySize(t *testing.T) {
	levelled := podWith("", "1Gi")
	levelled.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("48Mi")}}
	for name, tc := range map[string]struct {
		pod                *v1.Pod
		limit, allocatable string
		want               int64
	}{
		"V12":                         {podWith("32Mi"), "64Mi", "8Gi", 32 << 20},
		"the volume's":                {podWith("32Mi", "32Mi"), "16Mi", "8Gi", 16 << 20},
		"the sum of containers":       {podWith("32Mi", "32Mi"), "0", "8Gi", 64 << 20},
		"the node's":                  {podWith("32Gi"), "64Gi", "8Gi", 8 << 30},
		"a container without a limit": {podWith("32Mi", ""), "0", "8Gi", 8 << 30},
		"the pod's own":               {levelled, "0", "8Gi", 48 << 20},
		"nothing is known":            {podWith(""), "0", "0", 0},
		"only the volume's":           {podWith(""), "1Ki", "0", 1 << 10},
	} {
		limit, allocatable := resource.MustParse(tc.limit), resource.MustParse(tc.allocatable)
		require.Equal(t, tc.want, memorySize(tc.pod, &limit, allocatable.Value()), name)
	}
}

func TestPageSize(t *testing.T) {
	asks := func(names ...v1.ResourceName) *v1.Pod {
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}}}}
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{}
		for _, n := range names {
			pod.Spec.Containers[0].Resources.Requests[n] = resource.MustParse("1Gi")
		}
		return pod
	}
	for _, tc := range []struct {
		pod    *v1.Pod
		medium v1.StorageMedium
		want   int64 // zero: an error
	}{
		{asks("hugepages-2Mi"), "HugePages", 2 << 20},
		{asks("hugepages-2Mi", "hugepages-1Gi"), "HugePages", 0},
		{asks("memory"), "HugePages", 0},
		{asks("hugepages-2Mi", "hugepages-1Gi"), "HugePages-1Gi", 1 << 30},
		{asks("hugepages-2048Ki"), "HugePages-2Mi", 2 << 20},
		{asks("hugepages-2Mi"), "HugePages-1Gi", 0},
		{asks("hugepages-2Mi"), "HugePages-", 0},
		{asks("hugepages-odd"), "HugePages-2Mi", 0},
	} {
		got, err := pageSize(tc.pod, tc.medium)
		require.Equal(t, tc.want == 0, err != nil, "%v: %v", tc, err)
		require.Equal(t, tc.want, got)
	}
}
