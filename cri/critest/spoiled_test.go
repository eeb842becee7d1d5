package critest

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// spoiled is a runtime with a defect. Each function that is set replaces a call, or edits its
// request or reply.
type spoiled struct {
	cri.RuntimeService
	stop           func(ctx context.Context, id string, grace time.Duration) error
	start          func(ctx context.Context, id string) error
	remove         func(ctx context.Context, id string) error
	stopSandbox    func(ctx context.Context, id string) error
	removeSandbox  func(ctx context.Context, id string) error
	update         func(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error
	create         func(config *runtimeapi.ContainerConfig) error
	created        func(config *runtimeapi.ContainerConfig, id string)
	run            func(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler *string) error
	status         func(s *runtimeapi.ContainerStatus)
	statusResponse func(r *runtimeapi.ContainerStatusResponse, err error) (*runtimeapi.ContainerStatusResponse, error)
	sandbox        func(s *runtimeapi.PodSandboxStatus)
	filter         func(f *runtimeapi.ContainerFilter) *runtimeapi.ContainerFilter
	list           func(l []*runtimeapi.Container) []*runtimeapi.Container
	sandboxFilter  func(f *runtimeapi.PodSandboxFilter) *runtimeapi.PodSandboxFilter
	conditions     func(s *runtimeapi.RuntimeStatus)
	event          func(e *runtimeapi.ContainerEventResponse) bool
	reopen         func(err error) error
	execSync       func(ctx context.Context, command []string, timeout time.Duration, run func(context.Context, time.Duration) ([]byte, []byte, error)) ([]byte, []byte, error)
	exec           func(r *runtimeapi.ExecRequest) (answer string)
	attach         func(r *runtimeapi.AttachRequest) (answer string)
	forward        func(r *runtimeapi.PortForwardRequest) (answer string)
	stats          func(s *runtimeapi.ContainerStats, err error) (*runtimeapi.ContainerStats, error)
	statsFilter    func(f *runtimeapi.ContainerStatsFilter) *runtimeapi.ContainerStatsFilter
	sandboxStats   func(s *runtimeapi.PodSandboxStats, err error) (*runtimeapi.PodSandboxStats, error)
	events         func(ctx context.Context, run func(context.Context) error) error
	session        func(ctx context.Context, url string, run func(url string) (int, error)) (int, error) // Exec and Attach of the client
}

func newSpoiled(rt cri.RuntimeService) *spoiled {
	return &spoiled{
		RuntimeService: rt, stop: rt.StopContainer, start: rt.StartContainer, remove: rt.RemoveContainer,
		stopSandbox: rt.StopPodSandbox, removeSandbox: rt.RemovePodSandbox, update: rt.UpdateContainerResources,
	}
}

func (s *spoiled) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return s.stop(ctx, id, grace)
}

func (s *spoiled) StartContainer(ctx context.Context, id string) error {
	return s.start(ctx, id)
}

func (s *spoiled) RemoveContainer(ctx context.Context, id string) error {
	return s.remove(ctx, id)
}

func (s *spoiled) StopPodSandbox(ctx context.Context, id string) error {
	return s.stopSandbox(ctx, id)
}

func (s *spoiled) RemovePodSandbox(ctx context.Context, id string) error {
	return s.removeSandbox(ctx, id)
}

func (s *spoiled) UpdateContainerResources(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error {
	return s.update(ctx, request)
}

func (s *spoiled) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	if s.create != nil {
		config = copied(config)
		if err := s.create(config); err != nil {
			return "", err
		}
	}
	id, err := s.RuntimeService.CreateContainer(ctx, sandbox, config, pod)
	if err == nil && s.created != nil {
		s.created(config, id)
	}
	return id, err
}

func (s *spoiled) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	if s.run != nil {
		config = copied(config)
		if err := s.run(ctx, config, &handler); err != nil {
			return "", err
		}
	}
	return s.RuntimeService.RunPodSandbox(ctx, config, handler)
}

func (s *spoiled) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	response, err := s.RuntimeService.ContainerStatus(ctx, id, verbose)
	if err == nil && s.status != nil {
		s.status(response.Status)
	}
	if s.statusResponse != nil {
		return s.statusResponse(response, err)
	}
	return response, err
}

func (s *spoiled) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	response, err := s.RuntimeService.PodSandboxStatus(ctx, id, verbose)
	if err == nil && s.sandbox != nil {
		s.sandbox(response.Status)
	}
	return response, err
}

func (s *spoiled) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if s.filter != nil {
		filter = s.filter(copied(filter))
	}
	list, err := s.RuntimeService.ListContainers(ctx, filter)
	if err == nil && s.list != nil {
		list = s.list(list)
	}
	return list, err
}

func (s *spoiled) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if s.sandboxFilter != nil {
		filter = s.sandboxFilter(copied(filter))
	}
	return s.RuntimeService.ListPodSandbox(ctx, filter)
}

func (s *spoiled) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	response, err := s.RuntimeService.Status(ctx, verbose)
	if err == nil && s.conditions != nil {
		s.conditions(response.Status)
	}
	return response, err
}
