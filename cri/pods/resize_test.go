package pods

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/pleg/observed"
)

// scales is a runtime and a Cgroups that record resizes.
type scales struct {
	cri.RuntimeService
	done []string
	// fails returns the error of a step.
	fails func(step string) error
	usage uint64
	stats error
}

func (s *scales) did(format string, args ...any) error {
	step := fmt.Sprintf(format, args...)
	if s.fails != nil {
		if err := s.fails(step); err != nil {
			return err
		}
	}
	s.done = append(s.done, step)
	return nil
}

func (s *scales) UpdateContainerResources(ctx context.Context, r *runtimeapi.UpdateContainerResourcesRequest) error {
	response, err := s.ContainerStatus(ctx, r.ContainerId, false)
	if err != nil {
		return err
	}
	if err := s.did("%s quota=%d shares=%d memory=%d", response.Status.Metadata.Name, r.Linux.CpuQuota, r.Linux.CpuShares, r.Linux.MemoryLimitInBytes>>20); err != nil {
		return err
	}
	return s.RuntimeService.UpdateContainerResources(ctx, r)
}

func (s *scales) UpdatePodSandboxResources(ctx context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest) error {
	return s.did("sandbox quota=%d shares=%d memory=%d", r.Resources.CpuQuota, r.Resources.CpuShares, r.Resources.MemoryLimitInBytes>>20)
}

func (s *scales) ContainerStats(context.Context, string) (*runtimeapi.ContainerStats, error) {
	return &runtimeapi.ContainerStats{Memory: &runtimeapi.MemoryUsage{UsageBytes: &runtimeapi.UInt64Value{Value: s.usage << 20}}}, s.stats
}

func (s *scales) SetPodCgroup(_ context.Context, _ *v1.Pod, v cgroups.Needs) error {
	return s.did("pod cpu=%d-%d memory=%d-%d", v.CPURequest, v.CPULimit, v.MemoryRequest>>20, v.MemoryLimit>>20)
}

func (s *scales) PodMemoryUsage(context.Context, *v1.Pod) (int64, error) {
	return int64(s.usage << 20), s.stats
}

// needs returns equal requests and limits, in millicores and MiB.
func needs(cpu, memory int64) v1.ResourceRequirements {
	list := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
	}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

// resizeHarness runs a pod of two containers with 100m and 100 MiB each.
func resizeHarness(t *testing.T) (*harness, *scales, *v1.Pod) {
	h := newHarness(t, fake.Config{})
	sc := &scales{RuntimeService: h.runtime.RuntimeService, usage: 10}
	h.runtime.RuntimeService = sc
	h.cfg.Actuated = resize.NewMemory()
	h.cfg.PodCgroups = sc
	h.restart()
	pod := testPod("a", "b")
	pod.Spec.Containers[0].Resources, pod.Spec.Containers[1].Resources = needs(100, 100), needs(100, 100)
	h.mustSync(pod)
	h.runtime.take()
	h.takeEvents()
	return h, sc, pod
}

func (h *harness) resized(pod *v1.Pod) error {
	h.t.Helper()
	result := h.sync(pod)
	require.Len(h.t, result.Entries, 1)
	require.Equal(h.t, ActionResizePodInPlace, result.Entries[0].Action)
	require.Empty(h.t, h.runtime.take(), "nothing is restarted")
	return result.Err()
}

// C36: decreases come first. The pod grows before its containers and shrinks after them; memory
// goes before CPU. Each request to the runtime has both resources of a container.
func TestResizeOrder(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b v1.ResourceRequirements
		want []string
	}{
		{"the pod grows", needs(200, 100), needs(50, 100), []string{
			"sandbox quota=25000 shares=204 memory=200", "pod cpu=200-250 memory=200-200",
			"sandbox quota=25000 shares=256 memory=200", "pod cpu=250-250 memory=200-200",
			"b quota=5000 shares=51 memory=100", "a quota=20000 shares=204 memory=100",
		}},
		{"the pod shrinks", needs(120, 100), needs(50, 100), []string{
			"b quota=5000 shares=51 memory=100", "a quota=12000 shares=122 memory=100",
			"sandbox quota=20000 shares=174 memory=200", "pod cpu=170-200 memory=200-200",
			"sandbox quota=17000 shares=174 memory=200", "pod cpu=170-170 memory=200-200",
		}},
		{"both resources", needs(200, 50), needs(100, 100), []string{
			"a quota=10000 shares=102 memory=50",
			"sandbox quota=20000 shares=204 memory=200", "pod cpu=200-200 memory=150-200",
			"sandbox quota=20000 shares=204 memory=150", "pod cpu=200-200 memory=150-150",
			"sandbox quota=30000 shares=204 memory=150", "pod cpu=200-300 memory=150-150",
			"sandbox quota=30000 shares=307 memory=150", "pod cpu=300-300 memory=150-150",
			"a quota=20000 shares=204 memory=50",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, sc, pod := resizeHarness(t)
			pod.Spec.Containers[0].Resources, pod.Spec.Containers[1].Resources = tc.a, tc.b
			require.NoError(t, h.resized(pod))
			require.Equal(t, tc.want, sc.done)
			require.False(t, h.sync(pod).Acted(), "all of it is on record")
			h.restart()
			require.False(t, h.sync(pod).Acted())
		})
	}
}

// The next agent continues a resize that was interrupted at any step. Cancellation of the sync
// does not count as a failure.
func TestResizeIsTakenUp(t *testing.T) {
	for n := range 6 {
		h, sc, pod := resizeHarness(t)
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		sc.fails = func(string) error {
			if seen++; seen == n+1 {
				cancel()
				return errLost
			}
			return nil
		}
		pod.Spec.Containers[0].Resources = needs(200, 150)
		result := h.m.SyncPod(ctx, SyncRequest{Pod: pod, Status: h.status(pod)})
		require.ErrorIs(t, result.Err(), context.Canceled)
		require.Empty(t, result.Entries)
		cancel()
		sc.fails = nil
		h.restart()
		require.NoError(t, h.resized(pod))
		require.Equal(t, "a quota=20000 shares=204 memory=150", sc.done[len(sc.done)-1])
		require.False(t, h.sync(pod).Acted())
	}
}

// A container whose resize policy requires it is restarted, and the pod's cgroup follows.
func TestResizeRestarts(t *testing.T) {
	h, sc, pod := resizeHarness(t)
	pod.Spec.Containers[0].Resources = needs(100, 150)
	pod.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	h.mustSync(pod)
	require.Equal(t, []string{"StopContainer a 30s", "CreateContainer a/1", "StartContainer a"}, h.runtime.take())
	require.Equal(t, "pod cpu=200-200 memory=250-250", sc.done[len(sc.done)-1])
	require.False(t, h.sync(pod).Acted())
}

// KEP-2837: pod-level resources.
func TestResizePodLevel(t *testing.T) {
	h, sc, _ := resizeHarness(t)
	pod := testPod("a")
	pod.UID = "2837"
	whole := needs(300, 300)
	pod.Spec.Resources = &whole
	h.mustSync(pod)
	h.runtime.take()
	sc.done = nil
	bigger := needs(400, 350)
	pod.Spec.Resources = &bigger
	require.Equal(t, &whole, h.m.Applied(pod))
	require.NoError(t, h.resized(pod))
	require.Equal(t, &bigger, h.m.Applied(pod))
	require.Nil(t, h.m.Applied(testPod("a")), "it asks for none")
	require.Contains(t, sc.done, "a quota=40000 shares=409 memory=350", "without limits of its own the container has the pod's")
	require.False(t, h.sync(pod).Acted())
}

// A lost record causes no restart, even with policy RestartContainer, because the reported values
// are used. A later resize works.
func TestLostActuated(t *testing.T) {
	h, _, pod := resizeHarness(t)
	pod.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{
		{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}, {ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer},
	}
	before := h.status(pod)
	h.cfg.Actuated = resize.NewMemory()
	h.restart()
	h.mustSync(pod)
	after := h.mustSync(pod)
	require.Len(t, after.Containers, len(before.Containers))
	for i := range before.Containers {
		require.Equal(t, before.Containers[i].ID, after.Containers[i].ID)
		require.Equal(t, observed.StateRunning, after.Containers[i].State)
	}
	pod.Spec.Containers[0].Resources = needs(200, 64)
	h.mustSync(pod)
	require.NotEqual(t, before.Newest("a").ID, h.status(pod).Newest("a").ID)
	record, err := h.cfg.Actuated.Load(pod.UID)
	require.NoError(t, err)
	require.True(t, equality.Semantic.DeepEqual(needs(200, 64), record.Containers["a"]))
}

// A container that does not run has its new resources in the pod's cgroup before its next start,
// and the resize survives a restart of the agent.
func TestResizeOfStoppedContainers(t *testing.T) {
	grown := []string{
		"sandbox quota=20000 shares=204 memory=250", "pod cpu=200-200 memory=200-250",
		"sandbox quota=20000 shares=204 memory=250", "pod cpu=200-200 memory=250-250",
		"sandbox quota=25000 shares=204 memory=250", "pod cpu=200-250 memory=250-250",
		"sandbox quota=25000 shares=256 memory=250", "pod cpu=250-250 memory=250-250",
	}
	shrunk := []string{
		"sandbox quota=20000 shares=204 memory=200", "pod cpu=200-200 memory=150-200",
		"sandbox quota=20000 shares=204 memory=150", "pod cpu=200-200 memory=150-150",
		"sandbox quota=20000 shares=153 memory=150", "pod cpu=150-200 memory=150-150",
		"sandbox quota=15000 shares=153 memory=150", "pod cpu=150-150 memory=150-150",
	}
	for _, tc := range []struct {
		name   string
		before func(h *harness, pod *v1.Pod)
		calls  []string
	}{
		{"crash loop", func(h *harness, pod *v1.Pod) {
			for range 2 {
				h.exit(pod, "a")
				_ = h.sync(pod)
			}
		}, []string{"CreateContainer a/2", "StartContainer a"}},
		{"image pull", func(h *harness, pod *v1.Pod) {
			require.Error(h.t, h.sync(pod).Err())
			h.images.fail = nil
		}, []string{"CreateContainer a/0", "StartContainer a"}},
		{"init container", func(h *harness, pod *v1.Pod) {
			h.mustSync(pod)
			require.Nil(h.t, h.status(pod).Newest("a"))
		}, nil},
		{"new sandbox", func(h *harness, pod *v1.Pod) {
			h.mustSync(pod)
			require.NoError(h.t, h.runtime.RuntimeService.StopPodSandbox(h.t.Context(), h.status(pod).Sandboxes[0].ID))
		}, []string{"StopPodSandbox ", "RunPodSandbox web/1", "CreateContainer b/1", "StartContainer b", "CreateContainer a/1", "StartContainer a"}},
	} {
		for name, want := range map[string][]string{"grows": grown, "shrinks": shrunk} {
			t.Run(tc.name+" "+name, func(t *testing.T) {
				h, sc, _ := resizeHarness(t)
				pod := testPod("a", "b")
				pod.UID = "10"
				pod.Spec.Containers[0].Resources, pod.Spec.Containers[1].Resources = needs(100, 100), needs(100, 100)
				switch tc.name {
				case "init container":
					pod.Spec.InitContainers = []v1.Container{{Name: "i", Image: "busybox", Resources: needs(10, 10)}}
				case "image pull":
					h.images.fail = func(r images.Request) error {
						if r.Container.Name == "a" {
							return errLost
						}
						return nil
					}
				}
				if tc.name != "image pull" {
					h.mustSync(pod)
				}
				tc.before(h, pod)
				h.runtime.take()
				require.Empty(t, sc.done)
				pod.Spec.Containers[0].Resources = needs(150, 150)
				if name == "shrinks" {
					pod.Spec.Containers[0].Resources = needs(50, 50)
				}
				if tc.name != "crash loop" { // the back-off ends only if the agent saw the former resources
					h.restart()
				}

				// A cgroup that cannot grow delays the start. A shrinking one is retried likewise.
				sc.fails = func(step string) error {
					if step[:3] == "pod" {
						return errLost
					}
					return nil
				}
				require.ErrorIs(t, h.sync(pod).Err(), errLost)
				sc.fails, sc.done = nil, nil
				calls := h.runtime.take()
				require.NotContains(t, calls, "StartContainer a")
				h.mustSync(pod)
				require.Equal(t, want, sc.done)
				require.Equal(t, tc.calls, slices.Concat(calls, h.runtime.take()))
				h.restart()
				h.mustSync(pod)
				require.Equal(t, want, sc.done, "the resize is on record")
			})
		}
	}
}

// exit waits until a container has exited with an error.
func (h *harness) exit(pod *v1.Pod, name string) {
	h.t.Helper()
	require.NoError(h.t, h.runtime.RuntimeService.StopContainer(h.t.Context(), h.status(pod).Newest(name).ID.ID, 0))
}
