package summary

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorded returns the lines of a file recorded from the upstream kubelet 1.36.3 on cgroup v1 with
// one pod.
func recorded(t testing.TB, file string) map[string]string {
	text, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, shape, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[name] = shape
	}
	return out
}

// fieldPaths collects the paths of all values in a JSON document.
func fieldPaths(value any, at string, out map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for name, x := range v {
			fieldPaths(x, strings.TrimPrefix(at+"."+name, "."), out)
		}
	case []any:
		for _, x := range v {
			fieldPaths(x, at+"[]", out)
		}
	default:
		out[at] = ""
	}
}

// difference returns the names in a that are missing from b.
func difference(a, b map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(name string) bool { _, there := b[name]; return there })
}

// A Summary has every field that has a value upstream, and more where kernel and pod provide them.
func TestFieldsOfUpstream(t *testing.T) {
	_, p := newScene(t, 1, nil)
	measuredAll(t, p)
	// Limits that are set here, and values that cgroup v1 does not have.
	more := []string{"pods[].containers[].cpu.psi", "pods[].containers[].memory.psi", "pods[].swap.swapAvailableBytes", "node.systemContainers[].swap.swapAvailableBytes"}
	for path, test := range map[string]struct {
		file string
		more []string // beginnings of paths
	}{
		"/stats/summary": {
			"upstream-summary.txt", // recorded before volumes were measured, with a runtime that does not measure the rest
			append(more, "pods[].containers[].io.psi", "pods[].volume[]", "pods[].network", "pods[].process_stats"),
		},
		"/stats/summary?only_cpu_and_memory=true": {"upstream-cpu-and-memory.txt", more},
	} {
		var document any
		// A rate needs two readings: the previous one and this one.
		requireRates(t, p)
		require.NoError(t, json.Unmarshal(get(p.Stats(), path).Body.Bytes(), &document))
		ours := map[string]string{}
		fieldPaths(document, "", ours)
		upstream := recorded(t, test.file)
		require.Empty(t, difference(upstream, ours), path)
		for _, name := range difference(ours, upstream) {
			require.True(t, begins(name, test.more), "%s: %s is more than upstream has", path, name)
		}
	}
}

func begins(name string, with []string) bool {
	return slices.ContainsFunc(with, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// Only the metrics listed in the package documentation are missing from upstream's
// /metrics/cadvisor. The others have the same type and labels, as have all of /metrics/resource.
func TestMetricsOfUpstream(t *testing.T) {
	_, p := newScene(t, 2, nil)
	ours, upstream := shapes(parsed(t, p.Cadvisor())), recorded(t, "upstream-cadvisor.txt")
	for name, shape := range upstream {
		if ours[name] != "" {
			require.Equal(t, shape, ours[name], name)
		}
	}
	require.Equal(t, []string{
		"container_cpu_load_average_10s", "container_cpu_load_d_average_10s", "container_file_descriptors", "container_fs_io_current",
		"container_fs_io_time_seconds_total", "container_fs_io_time_weighted_seconds_total", "container_fs_read_seconds_total", "container_fs_reads_merged_total",
		"container_fs_sector_reads_total", "container_fs_sector_writes_total", "container_fs_write_seconds_total", "container_fs_writes_merged_total",
		"container_health_state", "container_processes", "container_sockets", "container_tasks_state", "container_ulimits_soft",
		"machine_cpu_books", "machine_cpu_drawers", "machine_nvm_avg_power_budget_watts", "machine_nvm_capacity",
	}, difference(upstream, ours))
	more := map[string]string{ // upstream has them where the kernel does
		"container_fs_reads_bytes_total": "COUNTER container device id image name namespace pod", "container_fs_writes_bytes_total": "COUNTER container device id image name namespace pod",
	}
	for _, of := range strings.Fields("cpu_stalled cpu_waiting memory_stalled memory_waiting io_stalled io_waiting") {
		more["container_pressure_"+of+"_seconds_total"] = "COUNTER container id image name namespace pod"
	}
	for _, name := range difference(ours, upstream) {
		require.Equal(t, more[name], ours[name], name)
		delete(more, name)
	}
	require.Empty(t, more)

	require.Equal(t, map[string]string{
		"container_cpu_usage_seconds_total": "COUNTER container namespace pod", "container_memory_working_set_bytes": "GAUGE container namespace pod",
		"container_start_time_seconds": "GAUGE container namespace pod", "container_swap_limit_bytes": "GAUGE container namespace pod", "container_swap_usage_bytes": "GAUGE container namespace pod",
		"node_cpu_usage_seconds_total": "COUNTER", "node_memory_working_set_bytes": "GAUGE", "node_swap_usage_bytes": "GAUGE",
		"pod_cpu_usage_seconds_total": "COUNTER namespace pod", "pod_memory_working_set_bytes": "GAUGE namespace pod", "pod_swap_usage_bytes": "GAUGE namespace pod",
		"resource_scrape_error": "GAUGE",
	}, shapes(parsed(t, p.Resource())))
}
