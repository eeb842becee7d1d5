package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStats implements StatsReader.
func (c *RuntimeClient) ContainerStats(ctx context.Context, containerID string) (*runtimeapi.ContainerStats, error) {
	reply, err := unary(ctx, c.link.call("ContainerStats", "container_stats"), c.api.ContainerStats,
		&runtimeapi.ContainerStatsRequest{ContainerId: containerID})
	return reply.GetStats(), err
}

// ListContainerStats implements StatsReader.
func (c *RuntimeClient) ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	return list(ctx, c.link.call("ListContainerStats", "list_container_stats"),
		func(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
			stream, err := c.api.StreamContainerStats(ctx, &runtimeapi.StreamContainerStatsRequest{Filter: filter})
			return collect(stream, err, (*runtimeapi.StreamContainerStatsResponse).GetContainerStats)
		},
		func(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
			reply, err := c.api.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: filter})
			return reply.GetStats(), err
		})
}

// PodSandboxStats implements StatsReader.
func (c *RuntimeClient) PodSandboxStats(ctx context.Context, sandboxID string) (*runtimeapi.PodSandboxStats, error) {
	reply, err := unary(ctx, c.link.call("PodSandboxStats", "podsandbox_stats"), c.api.PodSandboxStats,
		&runtimeapi.PodSandboxStatsRequest{PodSandboxId: sandboxID})
	return reply.GetStats(), err
}

// ListPodSandboxStats implements StatsReader.
func (c *RuntimeClient) ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	return list(ctx, c.link.call("ListPodSandboxStats", "list_podsandbox_stats"),
		func(ctx context.Context) ([]*runtimeapi.PodSandboxStats, error) {
			stream, err := c.api.StreamPodSandboxStats(ctx, &runtimeapi.StreamPodSandboxStatsRequest{Filter: filter})
			return collect(stream, err, (*runtimeapi.StreamPodSandboxStatsResponse).GetPodSandboxStats)
		},
		func(ctx context.Context) ([]*runtimeapi.PodSandboxStats, error) {
			reply, err := c.api.ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{Filter: filter})
			return reply.GetStats(), err
		})
}

// ListMetricDescriptors implements MetricsReader.
func (c *RuntimeClient) ListMetricDescriptors(ctx context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	reply, err := unary(ctx, c.link.call("ListMetricDescriptors", "list_metric_descriptors"), c.api.ListMetricDescriptors,
		&runtimeapi.ListMetricDescriptorsRequest{})
	return reply.GetDescriptors(), err
}

// ListPodSandboxMetrics implements MetricsReader.
func (c *RuntimeClient) ListPodSandboxMetrics(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	return list(ctx, c.link.call("ListPodSandboxMetrics", "list_podsandbox_metrics"),
		func(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
			stream, err := c.api.StreamPodSandboxMetrics(ctx, &runtimeapi.StreamPodSandboxMetricsRequest{})
			return collect(stream, err, (*runtimeapi.StreamPodSandboxMetricsResponse).GetPodSandboxMetrics)
		},
		func(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
			reply, err := c.api.ListPodSandboxMetrics(ctx, &runtimeapi.ListPodSandboxMetricsRequest{})
			return reply.GetPodMetrics(), err
		})
}
