package resize

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// CgroupValues are what the cgroup of a pod is to enforce and to reserve: the
// sums over its containers, with the overhead of its RuntimeClass. CPU is in
// thousandths, memory in bytes.
type CgroupValues struct {
	// CPURequest and MemoryRequest are zero when nothing is requested.
	CPURequest, MemoryRequest int64
	// CPULimit and MemoryLimit are zero when there is no limit.
	CPULimit, MemoryLimit int64
}

// Cgroups changes the cgroups of pods, in which those of their containers are.
type Cgroups interface {
	// SetPodCgroup makes a pod's cgroup have these values. It can be repeated.
	SetPodCgroup(ctx context.Context, pod *v1.Pod, values CgroupValues) error
	// PodMemoryUsage is how much memory, in bytes, a pod's cgroup uses now.
	PodMemoryUsage(ctx context.Context, pod *v1.Pod) (int64, error)
}
