package emptydir

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// V12: volume.Mount has the smaller of the limits of pod and volume. It is bounded by the
// node's allocatable memory.
func TestSize(t *testing.T) {
	for _, tc := range []struct{ limit, node, want int64 }{
		{32 << 20, 8 << 30, 32 << 20},
		{32 << 30, 8 << 30, 8 << 30},
		{0, 8 << 30, 8 << 30},
		{1 << 10, 0, 1 << 10},
		{1 << 10, -1, 1 << 10},
		{0, -1, 0},
		{0, 0, 0},
	} {
		p := New(Config{Allocatable: func() int64 { return tc.node }})
		require.Equal(t, tc.want, p.size(tc.limit), "%+v", tc)
	}
}

func TestPageSize(t *testing.T) {
	podRequesting := func(names ...v1.ResourceName) *v1.Pod {
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
		{podRequesting("hugepages-2Mi"), "HugePages", 2 << 20},
		{podRequesting("hugepages-2Mi", "hugepages-1Gi"), "HugePages", 0},
		{podRequesting("memory"), "HugePages", 0},
		{podRequesting("hugepages-2Mi", "hugepages-1Gi"), "HugePages-1Gi", 1 << 30},
		{podRequesting("hugepages-2048Ki"), "HugePages-2Mi", 2 << 20},
		{podRequesting("hugepages-2Mi"), "HugePages-1Gi", 0},
		{podRequesting("hugepages-2Mi"), "HugePages-", 0},
		{podRequesting("hugepages-odd"), "HugePages-2Mi", 0},
	} {
		got, err := pageSize(tc.pod, tc.medium)
		require.Equal(t, tc.want == 0, err != nil, "%v: %v", tc, err)
		require.Equal(t, tc.want, got)
	}
}
