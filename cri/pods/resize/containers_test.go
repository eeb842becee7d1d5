package resize

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/pleg/observed"
)

// hears is a runtime that records the received resources.
type hears struct {
	cri.ResourceUpdater
	containers, sandboxes []string
	ends                  func() // called at the first container
}

func words(r *runtimeapi.LinuxContainerResources) string {
	return fmt.Sprintf("quota=%d shares=%d memory=%d", r.CpuQuota, r.CpuShares, r.MemoryLimitInBytes>>20)
}

func (h *hears) UpdateContainerResources(_ context.Context, r *runtimeapi.UpdateContainerResourcesRequest) error {
	h.containers = append(h.containers, r.ContainerId+" "+words(r.Linux))
	if h.ends != nil {
		h.ends()
	}
	return nil
}

func (h *hears) UpdatePodSandboxResources(_ context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest) error {
	h.sandboxes = append(h.sandboxes, words(r.Resources))
	return nil
}

// resizeSpec resizes a pod from the recorded resources to its spec.
func resizeSpec(ctx context.Context, t *testing.T, runtime Runtime, spec v1.PodSpec, recorded actions.Actuated, todo actions.Actions) (*Record, error) {
	t.Helper()
	record := &Record{store: NewMemory(), uid: "1", actuated: recorded}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Spec: spec}
	return record, newResizer(t, Config{Runtime: runtime}).Resize(ctx, Request{Pod: pod, Status: &observed.Pod{UID: "1"}, Actions: &todo, Record: record})
}

// updateOf returns an Update of a container whose ID is its name.
func updateOf(name string, init bool, index int) actions.Update {
	return actions.Update{ID: observed.ContainerID{ID: name}, Name: name, Init: init, Index: index}
}

func recordOf(pod *v1.ResourceRequirements, containers ...string) actions.Actuated {
	out := actions.Actuated{Pod: pod, Containers: map[string]v1.ResourceRequirements{}}
	for _, name := range containers {
		out.Containers[name] = needs(100, 100)
	}
	return out
}

// Each request has the new value of one resource and the current value of the second. A container
// without a limit gets the pod's.
func TestResizeContainers(t *testing.T) {
	both := func(u ...actions.Update) actions.Actions {
		return actions.Actions{UpdateMemory: u, UpdateCPU: u}
	}
	two := v1.PodSpec{
		InitContainers: []v1.Container{{Name: "init", Resources: needs(300, 300)}},
		Containers:     []v1.Container{{Name: "c", Resources: needs(200, 200)}},
	}
	for name, test := range map[string]struct {
		spec     v1.PodSpec
		recorded actions.Actuated
		todo     actions.Actions
		want     []string
	}{
		"regular": {two, recordOf(nil, "init", "c"), both(updateOf("c", false, 0)),
			[]string{"c quota=10000 shares=102 memory=200", "c quota=20000 shares=204 memory=200"}},
		"init": {two, recordOf(nil, "init", "c"), both(updateOf("init", true, 0)),
			[]string{"init quota=10000 shares=102 memory=300", "init quota=30000 shares=307 memory=300"}},
		"the pod's limits": {
			v1.PodSpec{Resources: new(needs(500, 500)), Containers: []v1.Container{{Name: "free"}}},
			actions.Actuated{Pod: new(needs(100, 100))}, both(updateOf("free", false, 0)),
			[]string{"free quota=10000 shares=102 memory=500", "free quota=50000 shares=512 memory=500"},
		},
		"the pod asks no more": {
			v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: needs(200, 200)}}},
			recordOf(new(needs(500, 500)), "c"), both(updateOf("c", false, 0)),
			[]string{"c quota=10000 shares=102 memory=200", "c quota=20000 shares=204 memory=200"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			runtime := &hears{}
			_, err := resizeSpec(t.Context(), t, runtime, test.spec, test.recorded, test.todo)
			require.NoError(t, err)
			require.Equal(t, test.want, runtime.containers)
		})
	}
}

// A request that was removed from the spec is removed from the record. The old record is not
// changed.
func TestResizeDropsARequest(t *testing.T) {
	limits := v1.ResourceRequirements{Limits: needs(100, 100).Limits}
	spec := v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: limits}}}
	before := recordOf(nil, "c")
	record, err := resizeSpec(t.Context(), t, &hears{}, spec, before, actions.Actions{UpdateCPU: []actions.Update{updateOf("c", false, 0)}})
	require.NoError(t, err)
	require.Equal(t, recordOf(nil, "c"), before)
	left := record.Actuated().Containers["c"]
	require.NotContains(t, left.Requests, v1.ResourceCPU)
	require.Contains(t, left.Requests, v1.ResourceMemory)
}

// After cancellation the current container is finished and recorded, and no further container is
// resized.
func TestResizeEndsBetweenContainers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runtime := &hears{ends: cancel}
	spec := v1.PodSpec{Containers: []v1.Container{{Name: "a", Resources: needs(200, 100)}, {Name: "b", Resources: needs(50, 100)}}}
	todo := actions.Actions{UpdateCPU: []actions.Update{updateOf("b", false, 1), updateOf("a", false, 0)}}
	record, err := resizeSpec(ctx, t, runtime, spec, recordOf(nil, "a", "b"), todo)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"b quota=5000 shares=51 memory=100"}, runtime.containers)
	require.True(t, sameRequirements(needs(50, 100), record.Actuated().Containers["b"]))
	require.True(t, sameRequirements(needs(100, 100), record.Actuated().Containers["a"]))
}

// The sandbox's resources exclude the overhead, which is a separate field.
func TestResizeWithoutOverhead(t *testing.T) {
	runtime := &hears{}
	spec := v1.PodSpec{
		Overhead: needs(50, 7).Limits, Resources: new(needs(200, 100)),
		Containers: []v1.Container{{Name: "c"}},
	}
	_, err := resizeSpec(t.Context(), t, runtime, spec, actions.Actuated{Pod: new(needs(100, 100))}, actions.Actions{UpdatePodLevelResources: true})
	require.NoError(t, err)
	require.Equal(t, []string{"quota=20000 shares=102 memory=100", "quota=20000 shares=204 memory=100"}, runtime.sandboxes)
}
