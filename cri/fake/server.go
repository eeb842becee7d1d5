package fake

import (
	"context"
	"errors"
	"math"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/fields"
)

// maxMessage is the largest message of the server, as in real runtimes.
const maxMessage = 16 << 20

// Serve serves the runtime on a listener, a unix socket or one in memory, until ctx is done or the
// listener fails. It cancels the calls in progress, waits for them, and closes the listener. It
// does not close the runtime, and continues after Close: calls then fail with Unavailable. The end
// of ctx is no error.
func (rt *Runtime) Serve(ctx context.Context, listener net.Listener) error {
	if err := fields.Required("fake: Serve: listener", listener); err != nil {
		return err
	}
	server := NewServer(rt)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		server.Stop()
	})
	err := server.Serve(listener)
	if stop() {
		server.Stop()
		return err
	}
	<-stopped
	return nil
}

// NewServer returns a gRPC server with only the two services of rt, for callers that serve it
// themselves. Its Stop waits for calls in progress.
func NewServer(rt *Runtime) *grpc.Server {
	server := grpc.NewServer(rt.ServerOptions()...)
	Register(server, rt, rt)
	return server
}

// ServerOptions returns the options of a gRPC server for this runtime or a wrapper of it: the
// message sizes of real runtimes, and connections that Stop of the runtime cuts.
func (rt *Runtime) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.WaitForHandlers(true),
		grpc.Creds(newServerCredentials(rt)),
	}
}

// Register registers the two CRI services on a gRPC server. They may be any implementation, such as
// a wrapper of a Runtime. If it has a method Lacks(call string) error, as Runtime has, that is
// called before a list is streamed, with names such as "StreamContainers".
func Register(server grpc.ServiceRegistrar, runtime cri.RuntimeService, images cri.ImageService) {
	runtimeapi.RegisterRuntimeServiceServer(server, &runtimeServer{runtime: runtime})
	runtimeapi.RegisterImageServiceServer(server, &imageServer{images: images})
}

// seconds converts n seconds, limited to the range of a duration.
func seconds(n int64) time.Duration {
	most := int64(math.MaxInt64 / time.Second)
	return time.Duration(max(-most, min(n, most))) * time.Second
}

// reply gives an error the gRPC status for the client.
func reply[T any](response *T, err error) (*T, error) {
	if err == nil {
		return response, nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if status.Code(err) == codes.Unknown {
			return nil, status.FromContextError(err).Err()
		}
	}
	return nil, err
}

// runtimeServer serves a RuntimeService. The pod checkpoints are unimplemented.
type runtimeServer struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtime cri.RuntimeService
}

func (s *runtimeServer) Version(ctx context.Context, _ *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return reply(s.runtime.Version(ctx))
}

func (s *runtimeServer) RunPodSandbox(ctx context.Context, r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	id, err := s.runtime.RunPodSandbox(ctx, r.GetConfig(), r.GetRuntimeHandler())
	return reply(&runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, err)
}

func (s *runtimeServer) StopPodSandbox(ctx context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	return reply(&runtimeapi.StopPodSandboxResponse{}, s.runtime.StopPodSandbox(ctx, r.GetPodSandboxId()))
}

func (s *runtimeServer) RemovePodSandbox(ctx context.Context, r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	return reply(&runtimeapi.RemovePodSandboxResponse{}, s.runtime.RemovePodSandbox(ctx, r.GetPodSandboxId()))
}

func (s *runtimeServer) PodSandboxStatus(ctx context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	return reply(s.runtime.PodSandboxStatus(ctx, r.GetPodSandboxId(), r.GetVerbose()))
}

func (s *runtimeServer) ListPodSandbox(ctx context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	items, err := s.runtime.ListPodSandbox(ctx, r.GetFilter())
	return reply(&runtimeapi.ListPodSandboxResponse{Items: items}, err)
}

func (s *runtimeServer) CreateContainer(ctx context.Context, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	id, err := s.runtime.CreateContainer(ctx, r.GetPodSandboxId(), r.GetConfig(), r.GetSandboxConfig())
	return reply(&runtimeapi.CreateContainerResponse{ContainerId: id}, err)
}

func (s *runtimeServer) StartContainer(ctx context.Context, r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	return reply(&runtimeapi.StartContainerResponse{}, s.runtime.StartContainer(ctx, r.GetContainerId()))
}

func (s *runtimeServer) StopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	grace := seconds(r.GetTimeout())
	return reply(&runtimeapi.StopContainerResponse{}, s.runtime.StopContainer(ctx, r.GetContainerId(), grace))
}

func (s *runtimeServer) RemoveContainer(ctx context.Context, r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	return reply(&runtimeapi.RemoveContainerResponse{}, s.runtime.RemoveContainer(ctx, r.GetContainerId()))
}

func (s *runtimeServer) ListContainers(ctx context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	containers, err := s.runtime.ListContainers(ctx, r.GetFilter())
	return reply(&runtimeapi.ListContainersResponse{Containers: containers}, err)
}

func (s *runtimeServer) ContainerStatus(ctx context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	return reply(s.runtime.ContainerStatus(ctx, r.GetContainerId(), r.GetVerbose()))
}

func (s *runtimeServer) UpdateContainerResources(ctx context.Context, r *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	return reply(&runtimeapi.UpdateContainerResourcesResponse{}, s.runtime.UpdateContainerResources(ctx, r))
}

func (s *runtimeServer) UpdatePodSandboxResources(ctx context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return reply(&runtimeapi.UpdatePodSandboxResourcesResponse{}, s.runtime.UpdatePodSandboxResources(ctx, r))
}

func (s *runtimeServer) ReopenContainerLog(ctx context.Context, r *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	return reply(&runtimeapi.ReopenContainerLogResponse{}, s.runtime.ReopenContainerLog(ctx, r.GetContainerId()))
}

// ExecSync returns the exit code of a failed command as a field of the response.
func (s *runtimeServer) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	timeout := seconds(r.GetTimeout())
	stdout, stderr, err := s.runtime.ExecSync(ctx, r.GetContainerId(), r.GetCmd(), timeout)
	response := &runtimeapi.ExecSyncResponse{Stdout: stdout, Stderr: stderr}
	var failed *cri.ExitError
	switch {
	case errors.As(err, &failed):
		response.ExitCode, err = failed.Code, nil
	case errors.Is(err, cri.ErrExecTimeout) && status.Code(err) == codes.Unknown:
		err = status.Error(codes.DeadlineExceeded, err.Error())
	}
	return reply(response, err)
}

func (s *runtimeServer) GetContainerEvents(_ *runtimeapi.GetEventsRequest, out grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	ctx, cancel := context.WithCancelCause(out.Context())
	defer cancel(nil)
	err := s.runtime.GetContainerEvents(ctx, func(event *runtimeapi.ContainerEventResponse) {
		if err := out.Send(event); err != nil {
			cancel(err)
		}
	})
	_, err = reply(&struct{}{}, err)
	return err
}
