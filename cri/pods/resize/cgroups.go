package resize

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/cgroups"
)

// Cgroups changes the cgroups of pods, in which those of their containers are.
type Cgroups interface {
	// SetPodCgroup makes a pod's cgroup enforce and reserve what the pod needs now. It
	// can be repeated.
	SetPodCgroup(ctx context.Context, pod *v1.Pod, needs cgroups.Needs) error
	// PodMemoryUsage is how much memory, in bytes, a pod's cgroup uses now.
	PodMemoryUsage(ctx context.Context, pod *v1.Pod) (int64, error)
}
