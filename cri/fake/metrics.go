package fake

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sample is the input of a container's metrics.
type sample struct {
	c   *container
	now time.Time
}

func (s sample) runningTime() time.Duration { return max(0, s.now.Sub(time.Unix(0, s.c.startedAt))) }

// metric is a metric of containers: its descriptor and the function of its value.
type metric struct {
	name, help string
	kind       runtimeapi.MetricType
	value      func(sample) uint64
}

const (
	gauge   = runtimeapi.MetricType_GAUGE
	counter = runtimeapi.MetricType_COUNTER
)

// containerMetrics are some of the metrics of containerd 2.2, with its names.
func containerMetrics() []metric {
	constant := func(n uint64) func(sample) uint64 { return func(sample) uint64 { return n } }
	return []metric{
		{"container_processes", "Number of processes running inside the container.", gauge, constant(1)},
		{"container_last_seen", "Last time a container was seen by the exporter", gauge,
			func(s sample) uint64 { return uint64(max(0, s.now.Unix())) }},
		{"container_start_time_seconds", "Start time of the container since unix epoch in seconds", gauge,
			func(s sample) uint64 { return uint64(max(0, s.c.startedAt/int64(time.Second))) }},
		{"container_cpu_usage_seconds_total", "Cumulative CPU time consumed in seconds.", counter,
			func(s sample) uint64 { return cpuTime(s.runningTime()) / uint64(time.Second) }},
		{"container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was accessed", gauge, constant(usedMemory)},
		{"container_memory_working_set_bytes", "Current working set in bytes.", gauge, constant(usedMemory)},
		{"container_memory_rss", "Size of RSS in bytes.", gauge, constant(usedMemory)},
		{"container_memory_swap", "Container swap usage in bytes.", gauge, constant(0)},
		{"container_spec_memory_limit_bytes", "Memory limit for the container", gauge,
			func(s sample) uint64 { return uint64(max(0, s.c.resources.GetMemoryLimitInBytes())) }},
		{"container_spec_cpu_shares", "CPU share of the container", gauge,
			func(s sample) uint64 { return uint64(max(0, s.c.resources.GetCpuShares())) }},
		{"container_fs_usage_bytes", "Number of bytes that are consumed by the container on this filesystem.", gauge, constant(usedWritable)},
	}
}

// ListMetricDescriptors returns the descriptors of ListPodSandboxMetrics.
func (rt *Runtime) ListMetricDescriptors(ctx context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	if err := rt.enter(ctx, "ListMetricDescriptors", &runtimeapi.ListMetricDescriptorsRequest{}); err != nil {
		return nil, err
	}
	var out []*runtimeapi.MetricDescriptor
	for _, m := range containerMetrics() {
		out = append(out, &runtimeapi.MetricDescriptor{Name: m.name, Help: m.help, LabelKeys: []string{"id", "name"}})
	}
	return out, nil
}

// ListPodSandboxMetrics returns invented but plausible metrics of the running containers in ready
// sandboxes. They agree with the stats calls.
func (rt *Runtime) ListPodSandboxMetrics(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	if err := rt.enter(ctx, "ListPodSandboxMetrics", &runtimeapi.ListPodSandboxMetricsRequest{}); err != nil {
		return nil, err
	}
	metrics, now := containerMetrics(), rt.now()
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	out := []*runtimeapi.PodSandboxMetrics{}
	for b := range rt.store.allSandboxes.all() {
		if !b.ready {
			continue
		}
		pod := &runtimeapi.PodSandboxMetrics{PodSandboxId: b.id}
		for c := range b.containers.all() {
			if c.running() {
				pod.ContainerMetrics = append(pod.ContainerMetrics, sample{c, now}.measure(metrics))
			}
		}
		out = append(out, pod)
	}
	return out, nil
}

func (s sample) measure(metrics []metric) *runtimeapi.ContainerMetrics {
	out := &runtimeapi.ContainerMetrics{ContainerId: s.c.id}
	for _, m := range metrics {
		out.Metrics = append(out.Metrics, &runtimeapi.Metric{
			Name: m.name, Timestamp: s.now.UnixNano(), MetricType: m.kind,
			LabelValues: []string{s.c.id, s.c.name.name}, Value: &runtimeapi.UInt64Value{Value: m.value(s)},
		})
	}
	return out
}
