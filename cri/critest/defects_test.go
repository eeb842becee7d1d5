package critest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

func copied[M proto.Message](m M) M { return proto.Clone(m).(M) }

func callDefects() []defect {
	return []defect{
		{name: "a stop returns before the end", caughtBy: "Container/a container is created, runs, exits and is removed", runtime: func(s *spoiled, rt *fake.Runtime) {
			s.stop = func(ctx context.Context, id string, grace time.Duration) error {
				go func() {
					time.Sleep(time.Second)
					_ = rt.StopContainer(context.WithoutCancel(ctx), id, grace)
				}()
				return nil
			}
		}},
		{name: "a stop has no grace", caughtBy: "Container/a container is created, runs, exits and is removed", runtime: func(s *spoiled, rt *fake.Runtime) {
			s.stop = func(ctx context.Context, id string, _ time.Duration) error { return rt.StopContainer(ctx, id, 0) }
		}},
		{name: "a second stop fails", caughtBy: "Idempotence/stopping a container again does nothing", runtime: func(s *spoiled, rt *fake.Runtime) {
			s.stop = func(ctx context.Context, id string, grace time.Duration) error {
				if response, err := rt.ContainerStatus(ctx, id, false); err == nil && response.Status.FinishedAt != 0 {
					return errors.New("not running")
				}
				return rt.StopContainer(ctx, id, grace)
			}
		}},
		{name: "only the first of many stops waits", caughtBy: "Concurrency/all callers of a stop return at its end", runtime: func(s *spoiled, rt *fake.Runtime) {
			var first atomic.Bool
			s.stop = func(ctx context.Context, id string, grace time.Duration) error {
				if first.Swap(true) {
					return nil
				}
				time.Sleep(time.Second)
				return rt.StopContainer(ctx, id, grace)
			}
		}},
		{name: "a second start works", caughtBy: "Order/StartContainer of a running container is refused", runtime: func(s *spoiled, rt *fake.Runtime) {
			s.start = func(ctx context.Context, id string) error {
				_ = rt.StartContainer(ctx, id)
				return nil
			}
		}},
		{name: "a start waits for the end of the context", caughtBy: "Container/a missing executable is a StartError", runtime: func(s *spoiled, rt *fake.Runtime) {
			s.start = func(ctx context.Context, id string) error {
				<-ctx.Done()
				return status.FromContextError(ctx.Err()).Err()
			}
		}},
		{name: "removing what is unknown fails", caughtBy: "Idempotence/an unknown object can be stopped and removed", runtime: func(s *spoiled, rt *fake.Runtime) {
			s.remove = func(ctx context.Context, id string) error {
				if _, err := rt.ContainerStatus(ctx, id, false); err != nil {
					return errors.New("no such container")
				}
				return rt.RemoveContainer(ctx, id)
			}
		}},
		{name: "a removal leaves the container", caughtBy: "Order/RemoveContainer of an exited container works, it is removed", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.remove = func(context.Context, string) error { return nil }
		}},
		{name: "a stopped sandbox keeps its containers running", caughtBy: "Sandbox/stopping a sandbox ends its containers and keeps them", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.stopSandbox = func(context.Context, string) error { return nil }
		}},
		{name: "a sandbox with running containers cannot be removed", caughtBy: "Sandbox/removing a sandbox removes containers that run", runtime: func(s *spoiled, rt *fake.Runtime) {
			s.removeSandbox = func(ctx context.Context, id string) error {
				list, err := rt.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: id})
				if err != nil || len(list) > 0 {
					return errors.New("the sandbox is in use")
				}
				return rt.RemovePodSandbox(ctx, id)
			}
		}},
		{name: "an update is forgotten", caughtBy: "Resources/an update of a running container shows", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.update = func(context.Context, *runtimeapi.UpdateContainerResourcesRequest) error { return nil }
		}},
		{name: "a container's name is not reserved", caughtBy: "Names/a container's name is its own while it exists", runtime: freshAttempts},
		{name: "many callers get a container's name", caughtBy: "Concurrency/one of many callers gets a container's name", runtime: freshAttempts},
		{name: "removal does not free a container's name", caughtBy: "Names/removal frees a container's name", runtime: keepNames},
		{name: "a sandbox's name is not reserved", caughtBy: "Names/a sandbox's name is its own while it exists", runtime: freshAttempts},
		{name: "every handler is known", caughtBy: "Sandbox/an unknown handler is refused without leftovers", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.run = func(_ context.Context, _ *runtimeapi.PodSandboxConfig, handler *string) error {
				*handler = ""
				return nil
			}
		}},
		{name: "a large label is never answered", caughtBy: "BadInput/a sandbox with a label of 1 MiB gets a reply", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.run = func(ctx context.Context, config *runtimeapi.PodSandboxConfig, _ *string) error {
				if len(config.Labels["big"]) > 0 {
					<-ctx.Done()
					return status.FromContextError(ctx.Err()).Err()
				}
				return nil
			}
		}},
	}
}

// freshAttempts reserves no names.
func freshAttempts(s *spoiled, _ *fake.Runtime) {
	var attempts atomic.Uint32
	s.create = func(config *runtimeapi.ContainerConfig) error {
		config.Metadata.Attempt = attempts.Add(1)
		return nil
	}
	s.run = func(_ context.Context, config *runtimeapi.PodSandboxConfig, _ *string) error {
		config.Metadata.Attempt = attempts.Add(1)
		return nil
	}
}

// keepNames never releases a name.
func keepNames(s *spoiled, _ *fake.Runtime) {
	var mu sync.Mutex
	taken := map[string]bool{}
	s.create = func(config *runtimeapi.ContainerConfig) error {
		mu.Lock()
		defer mu.Unlock()
		if taken[config.Metadata.String()] {
			return status.Error(codes.AlreadyExists, "the name is taken")
		}
		taken[config.Metadata.String()] = true
		return nil
	}
}

func replyDefects() []defect {
	onStatus := func(edit func(s *runtimeapi.ContainerStatus)) func(*spoiled, *fake.Runtime) {
		return func(s *spoiled, _ *fake.Runtime) { s.status = edit }
	}
	onSandbox := func(edit func(s *runtimeapi.PodSandboxStatus)) func(*spoiled, *fake.Runtime) {
		return func(s *spoiled, _ *fake.Runtime) { s.sandbox = edit }
	}
	onFilter := func(edit func(f *runtimeapi.ContainerFilter)) func(*spoiled, *fake.Runtime) {
		return func(s *spoiled, _ *fake.Runtime) {
			s.filter = func(f *runtimeapi.ContainerFilter) *runtimeapi.ContainerFilter {
				if f != nil {
					edit(f)
				}
				return f
			}
		}
	}
	return []defect{
		{name: "a created container has a time of start", caughtBy: "Container/a created container has no time of start and no end", runtime: onStatus(func(s *runtimeapi.ContainerStatus) { s.StartedAt = s.CreatedAt })},
		{name: "a running container has an end", caughtBy: "Container/a running container has a time of start and no end", runtime: onStatus(func(s *runtimeapi.ContainerStatus) { s.FinishedAt = s.StartedAt })},
		{name: "exit codes are lost", caughtBy: "Container/another exit code is an Error", runtime: onStatus(func(s *runtimeapi.ContainerStatus) { s.ExitCode = 0 })},
		{name: "every end is an error", caughtBy: "Container/exit code 0 is Completed", runtime: onStatus(func(s *runtimeapi.ContainerStatus) { s.Reason = "Error" })},
		{name: "out of memory is an error", caughtBy: "Container/a container that exceeds its memory is OOMKilled", runtime: onStatus(func(s *runtimeapi.ContainerStatus) { s.Reason = "Error" })},
		{name: "the attempt is lost", caughtBy: "Container/the status repeats the config in every state", runtime: onStatus(func(s *runtimeapi.ContainerStatus) { s.Metadata.Attempt = 0 })},
		{name: "annotations are lost", caughtBy: "Container/the status repeats the config in every state", runtime: onStatus(func(s *runtimeapi.ContainerStatus) { s.Annotations = nil })},
		{name: "log paths are relative", caughtBy: "Container/log paths are absolute, and empty without a log", runtime: onStatus(func(s *runtimeapi.ContainerStatus) { s.LogPath = "c.log" })},
		{name: "the end time is the time of the request", caughtBy: "Container/the status of an exited container stays", runtime: func(s *spoiled, _ *fake.Runtime) {
			var asked atomic.Int64
			s.status = func(s *runtimeapi.ContainerStatus) { s.FinishedAt += asked.Add(1) }
		}},
		{name: "an unknown container is an unknown error", caughtBy: "Order/ContainerStatus of an unknown container is NotFound", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.statusResponse = func(r *runtimeapi.ContainerStatusResponse, err error) (*runtimeapi.ContainerStatusResponse, error) {
				if err != nil {
					err = status.Error(codes.Unknown, err.Error())
				}
				return r, err
			}
		}},
		{name: "readers see a start before its time", caughtBy: "Concurrency/readers see whole states while pods come and go", runtime: onStatus(func(s *runtimeapi.ContainerStatus) { s.StartedAt = 0 })},
		{name: "a stopped sandbox keeps its address", caughtBy: "Sandbox/a stopped sandbox stays, not ready and without its address", runtime: onSandbox(func(s *runtimeapi.PodSandboxStatus) { s.Network.Ip = "10.0.0.1" })},
		{name: "all sandboxes have one address", caughtBy: "Sandbox/each sandbox has an address of its own", runtime: onSandbox(func(s *runtimeapi.PodSandboxStatus) { s.Network.Ip = "10.0.0.1" })},
		{name: "sandboxes were made long ago", caughtBy: "Sandbox/the creation time is the time of the call", runtime: onSandbox(func(s *runtimeapi.PodSandboxStatus) { s.CreatedAt = 1 })},
		{name: "sandboxes have labels of the runtime's", caughtBy: "Sandbox/the status repeats the config", runtime: onSandbox(func(s *runtimeapi.PodSandboxStatus) { s.Labels = map[string]string{"runtime": "mine"} })},
		{name: "states in filters are ignored", caughtBy: "List/containers are selected by state", runtime: onFilter(func(f *runtimeapi.ContainerFilter) { f.State = nil })},
		{name: "labels in filters are ignored", caughtBy: "List/containers are selected by labels", runtime: onFilter(func(f *runtimeapi.ContainerFilter) { f.LabelSelector = nil })},
		{name: "sandboxes in filters are ignored", caughtBy: "List/containers are selected by sandbox", runtime: onFilter(func(f *runtimeapi.ContainerFilter) { f.PodSandboxId = "" })},
		{name: "only the id in a filter counts", caughtBy: "List/the parts of a filter all count", runtime: onFilter(func(f *runtimeapi.ContainerFilter) {
			if f.Id != "" {
				f.State, f.PodSandboxId, f.LabelSelector = nil, "", nil
			}
		})},
		{name: "one of two labels is enough", caughtBy: "List/sandboxes are selected by labels", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.sandboxFilter = func(f *runtimeapi.PodSandboxFilter) *runtimeapi.PodSandboxFilter {
				delete(f.GetLabelSelector(), "tier")
				return f
			}
		}},
		{name: "a list is one short", caughtBy: "List/without a filter everything is listed", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.list = func(l []*runtimeapi.Container) []*runtimeapi.Container { return l[:max(0, len(l)-1)] }
		}},
		{name: "an entry is listed twice", caughtBy: "List/every entry is complete and listed once", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.list = func(l []*runtimeapi.Container) []*runtimeapi.Container { return append(l, l...) }
		}},
		{name: "lists are behind", caughtBy: "List/a listed container agrees with its status", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.list = func(l []*runtimeapi.Container) []*runtimeapi.Container {
				for _, c := range l {
					c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
				}
				return l
			}
		}},
		{name: "the network has no condition", caughtBy: "Info/the status has both conditions, and they are true", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.conditions = func(s *runtimeapi.RuntimeStatus) { s.Conditions = s.Conditions[:1] }
		}},
	}
}
