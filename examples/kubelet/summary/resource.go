package summary

import (
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Prefixes of the help texts in /metrics/resource, as upstream.
const (
	stable = "[STABLE] "
	alpha  = "[ALPHA] "
)

// resources returns the metrics of /metrics/resource. A nil Summary sets resource_scrape_error.
func resources(s *statsapi.Summary) families {
	f := families{}
	failed := 0.0
	if s == nil {
		failed = 1
	} else {
		f.node(&s.Node)
		for i := range s.Pods {
			f.pod(&s.Pods[i])
		}
	}
	f.add(metricInfo{name: "resource_scrape_error", help: stable + "1 if reading container statistics failed, else 0"}, nil, failed, time.Time{})
	return f
}

func (f families) node(n *statsapi.NodeStats) {
	f.cpu(metricInfo{"node_cpu_usage_seconds_total", stable + "CPU time used by the node, in core-seconds", true}, nil, n.CPU)
	f.memory(metricInfo{"node_memory_working_set_bytes", stable + "Working set of the node now, in bytes", false}, nil, n.Memory)
	f.swap(metricInfo{"node_swap_usage_bytes", alpha + "Swap used by the node now, in bytes; not on Windows", false}, nil, n.Swap)
}

func (f families) pod(p *statsapi.PodStats) {
	labels := pairs("namespace", p.PodRef.Namespace, "pod", p.PodRef.Name)
	f.cpu(metricInfo{"pod_cpu_usage_seconds_total", stable + "CPU time used by the pod, in core-seconds", true}, labels, p.CPU)
	f.memory(metricInfo{"pod_memory_working_set_bytes", stable + "Working set of the pod now, in bytes", false}, labels, p.Memory)
	f.swap(metricInfo{"pod_swap_usage_bytes", alpha + "Swap used by the pod now, in bytes; not on Windows", false}, labels, p.Swap)
	for i := range p.Containers {
		c := &p.Containers[i]
		labels := labels.and("container", c.Name)
		if c.StartTime.Unix() > 0 {
			f.add(metricInfo{"container_start_time_seconds", stable + "Unix time of the container's start, in seconds", false}, labels, float64(c.StartTime.UnixNano())/1e9, time.Time{})
		}
		f.cpu(metricInfo{"container_cpu_usage_seconds_total", stable + "CPU time used by the container, in core-seconds", true}, labels, c.CPU)
		f.memory(metricInfo{"container_memory_working_set_bytes", stable + "Working set of the container now, in bytes", false}, labels, c.Memory)
		f.swap(metricInfo{"container_swap_usage_bytes", alpha + "Swap used by the container now, in bytes; not on Windows", false}, labels, c.Swap)
		if s := c.Swap; s != nil && s.SwapAvailableBytes != nil && s.SwapUsageBytes != nil {
			f.add(metricInfo{"container_swap_limit_bytes", alpha + "Swap that the container can use, in bytes; not on Windows", false}, labels, float64(*s.SwapAvailableBytes+*s.SwapUsageBytes), s.Time.Time)
		}
	}
}

func (f families) cpu(a metricInfo, labels *labelSet, c *statsapi.CPUStats) {
	if c != nil && c.UsageCoreNanoSeconds != nil {
		f.add(a, labels, float64(*c.UsageCoreNanoSeconds)/1e9, c.Time.Time)
	}
}

func (f families) memory(a metricInfo, labels *labelSet, m *statsapi.MemoryStats) {
	if m != nil && m.WorkingSetBytes != nil {
		f.add(a, labels, float64(*m.WorkingSetBytes), m.Time.Time)
	}
}

func (f families) swap(a metricInfo, labels *labelSet, s *statsapi.SwapStats) {
	if s != nil && s.SwapUsageBytes != nil {
		f.add(a, labels, float64(*s.SwapUsageBytes), s.Time.Time)
	}
}
