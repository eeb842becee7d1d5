package script

import (
	"context"
	"errors"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// Exec implements cri.RuntimeService.
func (s *services) Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return through(ctx, s, "Exec", about{container: request.GetContainerId()}, func(ctx context.Context) (*runtimeapi.ExecResponse, error) {
		return s.runtime.Exec(ctx, request)
	})
}

// Attach implements cri.RuntimeService.
func (s *services) Attach(ctx context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return through(ctx, s, "Attach", about{container: request.GetContainerId()}, func(ctx context.Context) (*runtimeapi.AttachResponse, error) {
		return s.runtime.Attach(ctx, request)
	})
}

// PortForward implements cri.RuntimeService.
func (s *services) PortForward(ctx context.Context, request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return through(ctx, s, "PortForward", about{sandbox: request.GetPodSandboxId()}, func(ctx context.Context) (*runtimeapi.PortForwardResponse, error) {
		return s.runtime.PortForward(ctx, request)
	})
}

// ContainerStats implements cri.RuntimeService.
func (s *services) ContainerStats(ctx context.Context, containerID string) (*runtimeapi.ContainerStats, error) {
	return through(ctx, s, "ContainerStats", about{container: containerID}, func(ctx context.Context) (*runtimeapi.ContainerStats, error) {
		return s.runtime.ContainerStats(ctx, containerID)
	})
}

// ListContainerStats implements cri.RuntimeService.
func (s *services) ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	return through(ctx, s, "ListContainerStats", about{}, func(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
		return s.runtime.ListContainerStats(ctx, filter)
	})
}

// PodSandboxStats implements cri.RuntimeService.
func (s *services) PodSandboxStats(ctx context.Context, sandboxID string) (*runtimeapi.PodSandboxStats, error) {
	return through(ctx, s, "PodSandboxStats", about{sandbox: sandboxID}, func(ctx context.Context) (*runtimeapi.PodSandboxStats, error) {
		return s.runtime.PodSandboxStats(ctx, sandboxID)
	})
}

// ListPodSandboxStats implements cri.RuntimeService.
func (s *services) ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	return through(ctx, s, "ListPodSandboxStats", about{}, func(ctx context.Context) ([]*runtimeapi.PodSandboxStats, error) {
		return s.runtime.ListPodSandboxStats(ctx, filter)
	})
}

// ListMetricDescriptors implements cri.RuntimeService.
func (s *services) ListMetricDescriptors(ctx context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	return through(ctx, s, "ListMetricDescriptors", about{}, func(ctx context.Context) ([]*runtimeapi.MetricDescriptor, error) {
		return s.runtime.ListMetricDescriptors(ctx)
	})
}

// ListPodSandboxMetrics implements cri.RuntimeService.
func (s *services) ListPodSandboxMetrics(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	return through(ctx, s, "ListPodSandboxMetrics", about{}, func(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
		return s.runtime.ListPodSandboxMetrics(ctx)
	})
}

// ExecSync implements cri.RuntimeService.
func (s *services) ExecSync(ctx context.Context, containerID string, command []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	reply, err := through(ctx, s, callExecSync, about{container: containerID}, func(ctx context.Context) (execReply, error) {
		stdout, stderr, err := s.runtime.ExecSync(ctx, containerID, command, timeout)
		return execReply{stdout, stderr}, err
	})
	var exited *cri.ExitError
	if errors.As(err, &exited) {
		reply.stdout, reply.stderr = exited.Stdout, exited.Stderr
		if exited.Code == 0 {
			err = nil
		}
	}
	return reply.stdout, reply.stderr, err
}

// execReply is what a command wrote.
type execReply struct{ stdout, stderr []byte }

// GetContainerEvents implements cri.RuntimeService.
func (s *services) GetContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error {
	return s.stream(ctx, handle)
}
