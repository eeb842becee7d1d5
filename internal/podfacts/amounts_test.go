package podfacts

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
)

// TestAmounts compares Request and Limit with the functions of component-helpers, for random
// pods.
func TestAmounts(t *testing.T) {
	names := []v1.ResourceName{v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourceCPU, "hugepages-2Mi", "example.com/gpu"}
	amounts := []string{"0", "1", "100m", "5k", "3Gi", "1e3", "1k", "9223372036854775807", "1e30"}
	seeds := uint64(5000)
	if testing.Short() {
		seeds = 500
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		list := func() (out v1.ResourceList) {
			for _, name := range names {
				if r.IntN(3) > 0 {
					if out == nil {
						out = v1.ResourceList{}
					}
					out[name] = resource.MustParse(amounts[r.IntN(len(amounts))])
				}
			}
			return out
		}
		containers := func(n int, sidecars bool) (out []v1.Container) {
			for range r.IntN(n) {
				c := v1.Container{Resources: v1.ResourceRequirements{Requests: list(), Limits: list()}}
				if sidecars && r.IntN(2) == 0 {
					c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
				}
				out = append(out, c)
			}
			return out
		}
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: containers(4, false), InitContainers: containers(5, true)}}
		if r.IntN(2) == 0 {
			pod.Spec.Resources = &v1.ResourceRequirements{Requests: list(), Limits: list()}
		}
		if r.IntN(2) == 0 {
			pod.Spec.Overhead = list()
		}
		before := pod.DeepCopy()
		of := before.DeepCopy() // quantities cache their text
		requests, limits := helper.PodRequests(of, helper.PodResourcesOptions{}), helper.PodLimits(of, helper.PodResourcesOptions{})
		for _, name := range names {
			wantRequest, wantRequested := requests[name]
			wantLimit, wantLimited := limits[name]
			request, requested := Request(pod, name)
			limit, limited := Limit(pod, name)
			require.Equal(t, before, pod, "the pod is not changed")
			require.Equal(t, wantRequested, requested, "request of %s, seed %d", name, seed)
			require.Equal(t, wantRequest.String(), request.String(), "request of %s, seed %d", name, seed)
			require.Equal(t, wantLimited, limited, "limit of %s, seed %d", name, seed)
			require.Equal(t, wantLimit.String(), limit.String(), "limit of %s, seed %d", name, seed)
		}
		require.True(t, equality.Semantic.DeepEqual(requests, Requests(pod)), "requests, seed %d", seed)
		require.True(t, equality.Semantic.DeepEqual(limits, Limits(pod)), "limits, seed %d", seed)
		require.Equal(t, before, pod, "the pod is not changed")
	}
	require.Nil(t, Requests(&v1.Pod{}))
	require.Nil(t, Limits(&v1.Pod{}))
}

func TestAmount(t *testing.T) {
	for _, c := range []struct {
		name v1.ResourceName
		text string
		want int64
	}{
		{v1.ResourceCPU, "1500m", 1500},
		{v1.ResourceCPU, "1", 1000},
		{v1.ResourceCPU, "1u", 1}, // rounded up
		{v1.ResourceCPU, "0", 0},
		{v1.ResourceCPU, "-1", 0},
		{v1.ResourceCPU, "9223372036854774", 9223372036854774000}, // the largest exact value
		{v1.ResourceCPU, "9223372036854775", math.MaxInt64},
		{v1.ResourceCPU, "9223372036854776", math.MaxInt64},
		{v1.ResourceMemory, "1Ki", 1024},
		{v1.ResourceMemory, "1500m", 2},
		{v1.ResourceMemory, "0", 0},
		{v1.ResourceMemory, "-1Gi", 0},
		{v1.ResourceMemory, "9223372036854775806", math.MaxInt64 - 1},
		{v1.ResourceMemory, "9223372036854775807", math.MaxInt64},
		{v1.ResourceMemory, "1e30", math.MaxInt64},
	} {
		require.Equal(t, c.want, Amount(c.name, resource.MustParse(c.text)), "%s of %s", c.text, c.name)
	}
}
