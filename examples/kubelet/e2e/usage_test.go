package e2e_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// The reported usage of pods is correct in all three places, with pod cgroups and with the
// runtime's figures (A27, N23).
func TestUsage(t *testing.T) {
	t.Run("cgroups", func(t *testing.T) { testUsage(t, "volumeStatsAggPeriod: 3s\n", true) })
	t.Run("runtime", func(t *testing.T) {
		testUsage(t, "volumeStatsAggPeriod: 3s\ncgroupsPerQOS: false\nenforceNodeAllocatable: []\n", false)
	})
}

func testUsage(t *testing.T, config string, cgroups bool) {
	onRuntimes(t, config, func(t *testing.T, s *scene) {
		busy := newPod("busy", shell("main", s.images.Busybox, "while :; do :; done"))
		busy.Spec.HostNetwork = false
		busy.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("300m"), v1.ResourceMemory: resource.MustParse("64Mi")}
		large := newPod("large", shell("main", s.images.Busybox, "dd if=/dev/zero of=/dev/shm/x bs=1M count=40"+untilTerm))
		writer := newPod("writer", shell("main", s.images.Busybox, "dd if=/dev/zero of=/own bs=1M count=6; dd if=/dev/zero of=/e/shared bs=1M count=4; head -c 500000 /dev/zero | tr '\\0' x"+untilTerm),
			shell("second", s.images.Busybox, untilTerm))
		writer.Spec.HostNetwork = false
		addVolume(writer, "e", "/e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		for _, p := range []*v1.Pod{busy, large, writer} {
			s.writeManifest(t, p.Name+".yaml", p)
		}
		for _, name := range []string{"busy", "large", "writer"} {
			s.running(t, name)
		}
		wait(t, 30*time.Second, "the Summary has the expected usage", func() error { return s.checkSummary(cgroups) })
		var few statsapi.Summary
		require.NoError(t, s.getJSON("/stats/summary?only_cpu_and_memory=true", &few))
		require.NotNil(t, few.Node.CPU)
		require.Nil(t, few.Node.Fs)
		require.Nil(t, few.Node.Network)
		require.Nil(t, few.Node.Runtime)
		for _, p := range few.Pods {
			require.Nil(t, p.Network)
			require.Nil(t, p.EphemeralStorage)
			require.Nil(t, p.Containers[0].Rootfs)
			require.NotNil(t, p.CPU)
			require.NotNil(t, p.Memory)
		}
		s.compareCPUWithRuntime(t)
	})
}

// checkSummary returns an error for each figure of the Summary outside its range.
func (s *scene) checkSummary(cgroups bool) error {
	var all statsapi.Summary
	if err := s.getJSON("/stats/summary", &all); err != nil {
		return err
	}
	pods := map[string]*statsapi.PodStats{}
	for i := range all.Pods {
		if name, ours := strings.CutSuffix(all.Pods[i].PodRef.Name, "-"+s.node); ours {
			pods[name] = &all.Pods[i]
		}
	}
	busy, large, writer := pods["busy"], pods["large"], pods["writer"]
	if busy == nil || large == nil || writer == nil || len(writer.Containers) != 2 {
		return fmt.Errorf("pods are missing: %+v", pods)
	}
	c := &writer.Containers[0]
	if c.Rootfs == nil || c.Logs == nil || len(writer.VolumeStats) != 1 || writer.EphemeralStorage == nil || busy.CPU == nil || large.Memory == nil {
		return fmt.Errorf("parts are missing: %+v %+v", writer, busy)
	}
	n := &all.Node
	if n.CPU == nil || n.Memory == nil || n.Fs == nil || n.Network == nil || n.Rlimit == nil || n.Runtime == nil || n.Runtime.ImageFs == nil || n.Runtime.ContainerFs == nil || n.Swap == nil ||
		n.Rlimit.NumOfRunningProcesses == nil || n.Rlimit.MaxPID == nil {
		return fmt.Errorf("parts of the node are missing: %+v", n)
	}
	errs := []error{
		// Its quota is 300m. Its actual share depends on the machine.
		between("CPU of busy", busy.CPU.UsageNanoCores, 1e6, 400e6),
		between("CPU of busy's container", busy.Containers[0].CPU.UsageNanoCores, 1e6, 400e6),
		between("memory of busy", busy.Containers[0].Memory.WorkingSetBytes, 1, 10<<20),
		between("available memory of busy", busy.Containers[0].Memory.AvailableBytes, 50<<20, 64<<20),
		between("working set of large", large.Memory.WorkingSetBytes, 40<<20, 48<<20),
		between("layer of writer", c.Rootfs.UsedBytes, 6<<20, 7<<20),
		between("disk of writer's layer", c.Rootfs.CapacityBytes, 1<<30, 1<<60),
		between("log of writer", c.Logs.UsedBytes, 450_000, 900_000),
		between("volume of writer", writer.VolumeStats[0].UsedBytes, 4<<20, 5<<20),
		between("ephemeral storage of writer", writer.EphemeralStorage.UsedBytes, 10<<20+450_000, 13<<20),
		between("CPU of the node", n.CPU.UsageNanoCores, 1e6, 64e9),
		between("working set of the node", n.Memory.WorkingSetBytes, 40<<20, 1<<45),
		between("available memory of the node", n.Memory.AvailableBytes, 1<<20, 1<<45),
		between("disk of the node", n.Fs.UsedBytes, 1<<20, 1<<60),
		between("images", n.Runtime.ImageFs.UsedBytes, 1<<20, 1<<60),
		between("processes of the node", new(uint64(*n.Rlimit.NumOfRunningProcesses)), 10, uint64(*n.Rlimit.MaxPID)),
	}
	if large.Network != nil {
		errs = append(errs, errors.New("network statistics of large, which is on the host network"))
	}
	if cgroups {
		if len(n.SystemContainers) == 0 || n.SystemContainers[len(n.SystemContainers)-1].Name != statsapi.SystemContainerPods {
			return errors.Join(append(errs, fmt.Errorf("no system container pods in %v", n.SystemContainers))...)
		}
		pods := n.SystemContainers[len(n.SystemContainers)-1]
		if writer.Network == nil || writer.ProcessStats == nil {
			return errors.Join(append(errs, fmt.Errorf("parts are missing: %+v", writer))...)
		}
		errs = append(errs, between("network of writer", writer.Network.RxBytes, 1, 1<<30), between("processes of writer", writer.ProcessStats.ProcessCount, 2, 8))
		errs = append(errs, between("memory of all pods", pods.Memory.WorkingSetBytes, 40<<20, 100<<20), between("CPU of all pods", pods.CPU.UsageNanoCores, 1e6, 600e6))
	}
	return errors.Join(errs...)
}

// compareCPUWithRuntime compares the CPU time of a spinning process with the runtime's figures
// before and after, and its rate with the elapsed time.
func (s *scene) compareCPUWithRuntime(t testing.TB) {
	t.Helper()
	id := s.mustRuntimeState(t).of("busy").running()[0].Id
	runtimes := func() uint64 {
		c, err := s.cri.ContainerStats(t.Context(), id)
		require.NoError(t, err)
		return c.GetCpu().GetUsageCoreNanoSeconds().GetValue()
	}
	ours := func() *statsapi.CPUStats {
		var all statsapi.Summary
		require.NoError(t, s.getJSON("/stats/summary?only_cpu_and_memory=true", &all))
		for _, p := range all.Pods {
			if p.PodRef.Name == "busy-"+s.node {
				return p.Containers[0].CPU
			}
		}
		t.Fatal("the Summary has no pod busy")
		return nil
	}
	least := runtimes()
	first := ours()
	require.GreaterOrEqual(t, *first.UsageCoreNanoSeconds, least)
	require.LessOrEqual(t, *first.UsageCoreNanoSeconds, runtimes())
	time.Sleep(3 * time.Second) // a rate needs elapsed time
	second := ours()
	require.Greater(t, *second.UsageCoreNanoSeconds, *first.UsageCoreNanoSeconds)
	require.Less(t, float64(*second.UsageNanoCores), 400e6)
	spent, passed := float64(*second.UsageCoreNanoSeconds-*first.UsageCoreNanoSeconds), second.Time.Sub(first.Time.Time).Seconds()+1 // times have whole seconds
	require.LessOrEqual(t, spent/passed, 330e6, "CPU quota of busy with a tolerance for late periods")
}

func between(name string, n *uint64, least, most uint64) error {
	if n == nil {
		return fmt.Errorf("%s is missing", name)
	}
	if *n < least || *n > most {
		return fmt.Errorf("%s: %d is not between %d and %d", name, *n, least, most)
	}
	return nil
}
