package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// What the pods of a node use: as much as they do, in all three places, with cgroups of
// their own and by the runtime's word (A27, N23).
func TestUsage(t *testing.T) {
	t.Run("cgroups", func(t *testing.T) { usageOf(t, "volumeStatsAggPeriod: 3s\n", true) })
	t.Run("runtime", func(t *testing.T) {
		usageOf(t, "volumeStatsAggPeriod: 3s\ncgroupsPerQOS: false\nenforceNodeAllocatable: []\n", false)
	})
}

func usageOf(t *testing.T, config string, cgroups bool) {
	onRuntimes(t, config, func(t *testing.T, s *scene) {
		busy := newPod("busy", shell("main", s.images.Busybox, "while :; do :; done"))
		busy.Spec.HostNetwork = false
		busy.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("300m"), v1.ResourceMemory: resource.MustParse("64Mi")}
		large := newPod("large", shell("main", s.images.Busybox, "dd if=/dev/zero of=/dev/shm/x bs=1M count=40"+untilTerm))
		writer := newPod("writer", shell("main", s.images.Busybox, "dd if=/dev/zero of=/own bs=1M count=6; dd if=/dev/zero of=/e/shared bs=1M count=4; head -c 500000 /dev/zero | tr '\\0' x"+untilTerm),
			shell("second", s.images.Busybox, untilTerm))
		writer.Spec.HostNetwork = false
		writer.Spec.Volumes = []v1.Volume{{Name: "e", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		writer.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "e", MountPath: "/e"}}
		for _, p := range []*v1.Pod{busy, large, writer} {
			s.place(t, p.Name+".yaml", p)
		}
		for _, name := range []string{"busy", "large", "writer"} {
			s.running(t, name)
		}
		wait(t, 30*time.Second, "the Summary says what is used", func() error { return s.summaryIs(cgroups) })
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
		s.cpuIsTheRuntimes(t)
		s.resourceMetrics(t)
		s.cadvisorMetrics(t, cgroups)
	})
}

// summaryIs tells what is not yet, or not at all, as it has to be.
func (s *scene) summaryIs(cgroups bool) error {
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
	if n.CPU == nil || n.Memory == nil || n.Fs == nil || n.Network == nil || n.Rlimit == nil || n.Runtime == nil || n.Runtime.ImageFs == nil || n.Runtime.ContainerFs == nil || n.Swap == nil {
		return fmt.Errorf("parts of the node are missing: %+v", n)
	}
	errs := []error{
		// Its quota is 300; how much of that it gets is the machine's matter.
		between("CPU of busy", busy.CPU.UsageNanoCores, 1e6, 400e6),
		between("CPU of busy's container", busy.Containers[0].CPU.UsageNanoCores, 1e6, 400e6),
		between("memory of busy", busy.Containers[0].Memory.WorkingSetBytes, 1, 10<<20),
		between("what is left to busy", busy.Containers[0].Memory.AvailableBytes, 50<<20, 64<<20),
		between("working set of large", large.Memory.WorkingSetBytes, 40<<20, 48<<20),
		between("layer of writer", c.Rootfs.UsedBytes, 6<<20, 7<<20),
		between("disk of writer's layer", c.Rootfs.CapacityBytes, 1<<30, 1<<60),
		between("log of writer", c.Logs.UsedBytes, 450_000, 900_000),
		between("volume of writer", writer.VolumeStats[0].UsedBytes, 4<<20, 5<<20),
		between("ephemeral storage of writer", writer.EphemeralStorage.UsedBytes, 10<<20+450_000, 13<<20),
		between("CPU of the node", n.CPU.UsageNanoCores, 1e6, 64e9),
		between("working set of the node", n.Memory.WorkingSetBytes, 40<<20, 1<<45),
		between("what is left to the node", n.Memory.AvailableBytes, 1<<20, 1<<45),
		between("disk of the node", n.Fs.UsedBytes, 1<<20, 1<<60),
		between("images", n.Runtime.ImageFs.UsedBytes, 1<<20, 1<<60),
		between("processes of the node", unsigned(n.Rlimit.NumOfRunningProcesses), 10, unsignedOr(n.Rlimit.MaxPID)),
	}
	if large.Network != nil {
		errs = append(errs, errors.New("a pod on the node's network has one of its own"))
	}
	if cgroups {
		if len(n.SystemContainers) == 0 || n.SystemContainers[len(n.SystemContainers)-1].Name != statsapi.SystemContainerPods {
			return errors.Join(append(errs, fmt.Errorf("no pods among %v", n.SystemContainers))...)
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

// cpuIsTheRuntimes compares the CPU time of a process that spins with what the runtime says
// before and after, and its rate with the time that has passed.
func (s *scene) cpuIsTheRuntimes(t testing.TB) {
	t.Helper()
	id := s.see(t).of("busy").running()[0].Id
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
		t.Fatal("busy is not there")
		return nil
	}
	least := runtimes()
	first := ours()
	require.GreaterOrEqual(t, *first.UsageCoreNanoSeconds, least)
	require.LessOrEqual(t, *first.UsageCoreNanoSeconds, runtimes())
	time.Sleep(3 * time.Second) // a rate is over time
	second := ours()
	require.Greater(t, *second.UsageCoreNanoSeconds, *first.UsageCoreNanoSeconds)
	require.Less(t, float64(*second.UsageNanoCores), 400e6)
	spent, passed := float64(*second.UsageCoreNanoSeconds-*first.UsageCoreNanoSeconds), second.Time.Sub(first.Time.Time).Seconds()+1 // times are of whole seconds
	require.LessOrEqual(t, spent/passed, 330e6, "its quota, with what a period may be late")
}

func unsigned(n *int64) *uint64 {
	if n == nil {
		return nil
	}
	return new(uint64(*n))
}

func unsignedOr(n *int64) uint64 {
	if n == nil {
		return 0
	}
	return uint64(*n)
}

func between(what string, n *uint64, least, most uint64) error {
	if n == nil {
		return fmt.Errorf("%s is not known", what)
	}
	if *n < least || *n > most {
		return fmt.Errorf("%s: %d is not between %d and %d", what, *n, least, most)
	}
	return nil
}

// scrape reads metrics with Prometheus' own parser.
func (s *scene) scrape(t testing.TB, path string) map[string]*dto.MetricFamily {
	t.Helper()
	status, body, err := s.get(path)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, string(body))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	require.NoError(t, err)
	return families
}

// metric is the value with these labels, names and values in turn.
func (s *scene) metric(t testing.TB, families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	require.Contains(t, families, name)
	var found []*dto.Metric
next:
	for _, m := range families[name].Metric {
		have := map[string]string{}
		for _, l := range m.Label {
			have[l.GetName()] = l.GetValue()
		}
		for i := 0; i < len(labels); i += 2 {
			if have[labels[i]] != labels[i+1] {
				continue next
			}
		}
		found = append(found, m)
	}
	require.Len(t, found, 1, "%s %v", name, labels)
	if families[name].GetType() == dto.MetricType_COUNTER {
		return found[0].GetCounter().GetValue()
	}
	return found[0].GetGauge().GetValue()
}

func (s *scene) resourceMetrics(t testing.TB) {
	f := s.scrape(t, "/metrics/resource")
	busy, large := []string{"namespace", "default", "pod", "busy-" + s.node}, []string{"namespace", "default", "pod", "large-" + s.node}
	require.Zero(t, s.metric(t, f, "resource_scrape_error"))
	require.Greater(t, s.metric(t, f, "pod_cpu_usage_seconds_total", busy...), 0.02)
	require.Greater(t, s.metric(t, f, "container_cpu_usage_seconds_total", append(busy, "container", "main")...), 0.02)
	require.GreaterOrEqual(t, s.metric(t, f, "pod_memory_working_set_bytes", large...), float64(40<<20))
	require.GreaterOrEqual(t, s.metric(t, f, "container_memory_working_set_bytes", append(large, "container", "main")...), float64(40<<20))
	require.InDelta(t, time.Now().Unix(), s.metric(t, f, "container_start_time_seconds", append(large, "container", "main")...), 300)
	require.Positive(t, s.metric(t, f, "node_cpu_usage_seconds_total"))
	require.Positive(t, s.metric(t, f, "node_memory_working_set_bytes"))
	require.GreaterOrEqual(t, s.metric(t, f, "node_swap_usage_bytes"), 0.0)
}

func (s *scene) cadvisorMetrics(t testing.TB, cgroups bool) {
	f := s.scrape(t, "/metrics/cadvisor")
	busy := []string{"namespace", "default", "pod", "busy-" + s.node, "container", "main"}
	large := []string{"namespace", "default", "pod", "large-" + s.node, "container", "main"}
	writer := []string{"namespace", "default", "pod", "writer-" + s.node}
	require.Greater(t, s.metric(t, f, "container_cpu_usage_seconds_total", append(busy, "cpu", "total", "image", s.images.Busybox)...), 0.02)
	require.GreaterOrEqual(t, s.metric(t, f, "container_memory_working_set_bytes", large...), float64(40<<20))
	require.GreaterOrEqual(t, s.metric(t, f, "container_fs_usage_bytes", append(writer, "container", "main")...), float64(6<<20))
	require.Positive(t, s.metric(t, f, "machine_memory_bytes"))
	require.Positive(t, s.metric(t, f, "container_last_seen", large...))
	if !cgroups {
		return
	}
	require.Positive(t, s.metric(t, f, "container_network_receive_bytes_total", append(writer, "interface", "eth0", "container", "")...))
	require.Equal(t, 30000.0, s.metric(t, f, "container_spec_cpu_quota", busy...))
	require.Equal(t, 100000.0, s.metric(t, f, "container_spec_cpu_period", busy...))
	require.Equal(t, float64(64<<20), s.metric(t, f, "container_spec_memory_limit_bytes", busy...))
	require.Positive(t, s.metric(t, f, "container_cpu_cfs_throttled_periods_total", busy...))
	require.GreaterOrEqual(t, s.metric(t, f, "container_memory_cache", large...), float64(40<<20))
	require.Positive(t, s.metric(t, f, "container_threads", large...))
	require.Positive(t, s.metric(t, f, "container_memory_failures_total", append(large, "failure_type", "pgfault", "scope", "hierarchy")...))
	require.Positive(t, s.metric(t, f, "container_memory_working_set_bytes", "id", "/"))
}
