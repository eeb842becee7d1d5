package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop/allocation"
)

func milli(n int64) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: *quantity.NewMilliQuantity(n, quantity.DecimalSI)}}
}

func (w *world) wants(name string, r v1.ResourceRequirements) {
	w.t.Helper()
	pod := w.at(name)
	require.NotNil(w.t, pod)
	pod.Generation++
	pod.Spec.Containers[0].Resources = r
	w.api.Put(pod)
}

func (w *world) sharesOf(container string) (shares int64) {
	for _, c := range w.Containers() {
		if c.Metadata.Name == container && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			s, err := w.runtime.ContainerStatus(w.t.Context(), c.Id, false)
			require.NoError(w.t, err)
			shares = s.Status.Resources.Linux.CpuShares
		}
	}
	return shares
}

func (w *world) allocatedFile(name string) int64 {
	s, err := allocation.Open(filepath.Join(w.dir, "root", allocation.AllocatedFile))
	require.NoError(w.t, err)
	r, ok := s.Get(w.at(name).UID)
	require.True(w.t, ok)
	requests := r.ContainerResources[w.at(name).Spec.Containers[0].Name].Requests
	return requests.Cpu().MilliValue()
}

func (w *world) requireCPU(name, container string, n int64) {
	w.t.Helper()
	require.Equal(w.t, int64(cgroups.Shares(n)), w.sharesOf(container), "%s: cgroup of the container", name)
	require.Equal(w.t, n, w.allocatedFile(name), "%s: file", name)
	s := w.at(name).Status.ContainerStatuses[0]
	require.Equal(w.t, n, s.AllocatedResources.Cpu().MilliValue(), "%s: allocatedResources", name)
	require.Equal(w.t, n, s.Resources.Requests.Cpu().MilliValue(), "%s: resources", name)
	pod, found := w.cgroups.Get(w.agent.cgroups.tree.Path(w.agent.cgroups.tree.Pod(w.at(name))))
	require.True(w.t, found)
	require.Equal(w.t, cgroups.Shares(n), pod.Shares, "%s: cgroup of the pod", name)
}

func (w *world) resizeCondition(name string, t v1.PodConditionType) *v1.PodCondition {
	return podfacts.Condition(w.at(name).Status.Conditions, t)
}

// N16, N17, N18: resizes take effect without restarts. A resize that does not fit waits, also
// across a restart of the agent, and is granted as soon as another pod has ended by itself.
func TestResizes(t *testing.T) {
	inClusterOf(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"b": after(50300*time.Millisecond, 0)}, fake.SleepUntilStopped)}, func(w *world) {
		w.allocatable = v1.ResourceList{v1.ResourceCPU: quantity.MustParse("4")}
		w.startFor(3 * time.Second)
		for i, name := range []string{"a", "b"} {
			pod := bound(name, name)
			pod.Generation, pod.Spec.RestartPolicy, pod.Spec.Containers[0].Resources = 1, v1.RestartPolicyNever, milli(int64(1000*(i+1)))
			w.put(pod)
		}
		w.Sleep(5 * time.Second)
		w.requireCPU("a", "a", 1000)

		w.wants("a", milli(2000))
		w.Sleep(5 * time.Second)
		w.requireCPU("a", "a", 2000)
		require.Nil(t, w.resizeCondition("a", v1.PodResizeInProgress))
		require.Subset(t, w.events("a"), []string{"ResizeStarted", "ResizeCompleted"})

		w.wants("a", milli(3000))
		w.Sleep(5 * time.Second)
		deferred := w.resizeCondition("a", v1.PodResizePending)
		require.NotNil(t, deferred)
		require.Equal(t, v1.PodReasonDeferred, deferred.Reason)
		require.Equal(t, int64(3), deferred.ObservedGeneration)
		require.Equal(t, "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000", deferred.Message)
		require.Contains(t, w.events("a"), "ResizeDeferred")
		w.requireCPU("a", "a", 2000)

		w.crash()
		w.startFor(10 * time.Second)
		w.requireCPU("a", "a", 2000)
		require.Equal(t, deferred, w.resizeCondition("a", v1.PodResizePending), "the same condition with the same transition time")

		for w.at("b").Status.Phase != v1.PodSucceeded {
			w.Sleep(10 * time.Millisecond)
		}
		w.Sleep(100 * time.Millisecond)
		w.requireCPU("a", "a", 3000)
		require.Nil(t, w.resizeCondition("a", v1.PodResizePending))
		require.Equal(t, map[string]float64{"pod_terminated": 1}, w.accepted())

		w.wants("a", milli(-1))
		w.Sleep(5 * time.Second)
		require.Equal(t, v1.PodReasonInfeasible, w.resizeCondition("a", v1.PodResizePending).Reason)
		require.Contains(t, w.events("a"), "ResizeInfeasible")
		require.Equal(t, map[string][]uint32{"a": {0}}, w.Running())
	})
}

// accepted counts the resizes that were granted after a wait, by the cause of the retry.
func (w *world) accepted() map[string]float64 {
	families, err := w.agent.in.cfg.Metrics.Gatherer().Gather()
	require.NoError(w.t, err)
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "kubelet_pod_deferred_accepted_resizes_total" {
			for _, m := range f.GetMetric() {
				out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// N19: a corrupt file of allocations ends the agent at its start.
func TestCorruptAllocationsStopTheStart(t *testing.T) {
	for _, name := range []string{allocation.AllocatedFile, allocation.ActuatedFile} {
		cfg := configOf(t.TempDir(), noRuntime)
		f := folders{root: cfg.Flags.RootDir}
		require.NoError(t, f.prepare())
		require.NoError(t, cfg.complete())
		require.NoError(t, os.WriteFile(filepath.Join(f.root, name), []byte(`{"data":"{","checksum":1}`), 0o600))
		_, err := newInputs(&cfg, new(connected))
		require.ErrorIs(t, err, allocation.ErrCorrupt)
		require.ErrorContains(t, err, filepath.Join(f.root, name))
	}
}

// A resize of a container in back-off changes the pod's cgroup and starts the container at once. The
// cgroup also changes after a restart of the agent.
func TestResizeEndsBackOff(t *testing.T) {
	inClusterOf(t, fake.Config{Programs: fake.Always(after(100*time.Millisecond, 1))}, func(w *world) {
		w.allocatable = v1.ResourceList{v1.ResourceCPU: quantity.MustParse("4")}
		w.startFor(3 * time.Second)
		pod := bound("a", "a")
		pod.Generation, pod.Spec.RestartPolicy, pod.Spec.Containers[0].Resources = 1, v1.RestartPolicyAlways, milli(1000)
		w.put(pod)
		w.Sleep(50 * time.Second)
		before := w.at("a").Status.ContainerStatuses[0]
		require.NotNil(t, before.State.Waiting)
		require.Equal(t, "CrashLoopBackOff", before.State.Waiting.Reason)
		w.occupy("a")
		w.wants("a", milli(2000))
		w.Sleep(2 * time.Second)
		now := w.at("a").Status.ContainerStatuses[0]
		require.Equal(t, before.RestartCount+1, now.RestartCount)
		require.Nil(t, w.resizeCondition("a", v1.PodResizeInProgress))
		shares := func() uint64 {
			values, found := w.cgroups.Get(w.agent.cgroups.tree.Path(w.agent.cgroups.tree.Pod(w.at("a"))))
			require.True(t, found)
			return values.Shares
		}
		require.Equal(t, cgroups.Shares(2000), shares())

		w.stop()
		w.startFor(5 * time.Second)
		w.wants("a", milli(3000))
		w.Sleep(5 * time.Second)
		require.Equal(t, cgroups.Shares(3000), shares())
	})
}
