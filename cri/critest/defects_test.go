package critest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

func copied[M proto.Message](m M) M { return proto.Clone(m).(M) }

// TestDefects shows that the suite can fail: each defect is caught by the case
// whose rule it breaks, and that case passes without the defect.
func TestDefects(t *testing.T) {
	for _, d := range defects() {
		t.Run(d.name, func(t *testing.T) {
			c := caseNamed(t, d.caughtBy)
			sound := record(t, c, func(rt *fake.Runtime) cri.RuntimeService { return rt })
			require.False(t, sound.failed || sound.skipped, "without the defect: %s", sound.log.String())
			broken := record(t, c, func(rt *fake.Runtime) cri.RuntimeService {
				s := &spoiled{RuntimeService: rt}
				d.spoil(s, rt)
				return s
			})
			require.True(t, broken.failed, "the case passes in spite of the defect")
			require.NotEmpty(t, broken.log.String(), "a failure says what is wrong")
		})
	}
}

type defect struct {
	name     string
	caughtBy string
	spoil    func(s *spoiled, rt *fake.Runtime)
}

func defects() []defect {
	return append(callDefects(), replyDefects()...)
}

// callDefects are calls that do the wrong thing.
func callDefects() []defect {
	return []defect{
		{"a stop returns before the end", "Container/a container is created, runs, exits and goes", func(s *spoiled, rt *fake.Runtime) {
			s.stop = func(ctx context.Context, id string, grace time.Duration) error {
				go func() {
					time.Sleep(time.Second)
					_ = rt.StopContainer(context.WithoutCancel(ctx), id, grace)
				}()
				return nil
			}
		}},
		{"a stop has no grace", "Container/a container is created, runs, exits and goes", func(s *spoiled, rt *fake.Runtime) {
			s.stop = func(ctx context.Context, id string, _ time.Duration) error { return rt.StopContainer(ctx, id, 0) }
		}},
		{"a second stop fails", "Idempotence/stopping a container again does nothing", func(s *spoiled, rt *fake.Runtime) {
			s.stop = func(ctx context.Context, id string, grace time.Duration) error {
				if response, err := rt.ContainerStatus(ctx, id, false); err == nil && response.Status.FinishedAt != 0 {
					return errors.New("not running")
				}
				return rt.StopContainer(ctx, id, grace)
			}
		}},
		{"only the first of many stops waits", "Concurrency/all callers of a stop return when it is over", func(s *spoiled, rt *fake.Runtime) {
			var first atomic.Bool
			s.stop = func(ctx context.Context, id string, grace time.Duration) error {
				if first.Swap(true) {
					return nil
				}
				time.Sleep(time.Second)
				return rt.StopContainer(ctx, id, grace)
			}
		}},
		{"a second start works", "Order/StartContainer of a running container is refused", func(s *spoiled, rt *fake.Runtime) {
			s.start = func(ctx context.Context, id string) error {
				_ = rt.StartContainer(ctx, id)
				return nil
			}
		}},
		{"a start waits for the end of the context", "Container/a missing executable is a StartError", func(s *spoiled, rt *fake.Runtime) {
			s.start = func(ctx context.Context, id string) error {
				<-ctx.Done()
				return status.FromContextError(ctx.Err()).Err()
			}
		}},
		{"removing what is unknown fails", "Idempotence/what never was can be stopped and removed", func(s *spoiled, rt *fake.Runtime) {
			s.remove = func(ctx context.Context, id string) error {
				if _, err := rt.ContainerStatus(ctx, id, false); err != nil {
					return errors.New("no such container")
				}
				return rt.RemoveContainer(ctx, id)
			}
		}},
		{"a removal leaves the container", "Order/RemoveContainer of an exited container works, it is gone", func(s *spoiled, _ *fake.Runtime) {
			s.remove = func(context.Context, string) error { return nil }
		}},
		{"a stopped sandbox keeps its containers running", "Sandbox/stopping a sandbox ends its containers and keeps them", func(s *spoiled, _ *fake.Runtime) {
			s.stopSandbox = func(context.Context, string) error { return nil }
		}},
		{"a sandbox with running containers cannot be removed", "Sandbox/removing a sandbox removes containers that run", func(s *spoiled, rt *fake.Runtime) {
			s.removeSandbox = func(ctx context.Context, id string) error {
				list, err := rt.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: id})
				if err != nil || len(list) > 0 {
					return errors.New("the sandbox is in use")
				}
				return rt.RemovePodSandbox(ctx, id)
			}
		}},
		{"an update is forgotten", "Resources/an update of a running container shows", func(s *spoiled, _ *fake.Runtime) {
			s.update = func(context.Context, *runtimeapi.UpdateContainerResourcesRequest) error { return nil }
		}},
		{"a container's name is not reserved", "Names/a container's name is its own while it exists", func(s *spoiled, _ *fake.Runtime) {
			var attempts atomic.Uint32
			s.create = func(config *runtimeapi.ContainerConfig) error {
				config.Metadata.Attempt = attempts.Add(1)
				return nil
			}
		}},
		{"many callers get a container's name", "Concurrency/one of many callers gets a container's name", func(s *spoiled, _ *fake.Runtime) {
			var attempts atomic.Uint32
			s.create = func(config *runtimeapi.ContainerConfig) error {
				config.Metadata.Attempt = attempts.Add(1)
				return nil
			}
		}},
		{"removal does not free a container's name", "Names/removal frees a container's name", keepNames},
		{"a sandbox's name is not reserved", "Names/a sandbox's name is its own while it exists", func(s *spoiled, _ *fake.Runtime) {
			var attempts atomic.Uint32
			s.run = func(_ context.Context, config *runtimeapi.PodSandboxConfig, _ *string) error {
				config.Metadata.Attempt = attempts.Add(1)
				return nil
			}
		}},
		{"every handler is known", "Sandbox/an unknown handler is refused and leaves nothing", func(s *spoiled, _ *fake.Runtime) {
			s.run = func(_ context.Context, _ *runtimeapi.PodSandboxConfig, handler *string) error {
				*handler = ""
				return nil
			}
		}},
		{"a large label is never answered", "BadInput/a sandbox with a label of 1 MiB is answered", func(s *spoiled, _ *fake.Runtime) {
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

// keepNames makes a runtime that never gives a name free.
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

// replyDefects are replies that say the wrong thing.
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
		{"a created container has a time of start", "Container/a created container has no time of start and no end", onStatus(func(s *runtimeapi.ContainerStatus) { s.StartedAt = s.CreatedAt })},
		{"a running container has an end", "Container/a running container has a time of start and no end", onStatus(func(s *runtimeapi.ContainerStatus) { s.FinishedAt = s.StartedAt })},
		{"exit codes are lost", "Container/another exit code is an Error", onStatus(func(s *runtimeapi.ContainerStatus) { s.ExitCode = 0 })},
		{"every end is an error", "Container/exit code 0 is Completed", onStatus(func(s *runtimeapi.ContainerStatus) { s.Reason = "Error" })},
		{"out of memory is an error", "Container/a container that exceeds its memory is OOMKilled", onStatus(func(s *runtimeapi.ContainerStatus) { s.Reason = "Error" })},
		{"the attempt is lost", "Container/the status repeats the config in every state", onStatus(func(s *runtimeapi.ContainerStatus) { s.Metadata.Attempt = 0 })},
		{"annotations are lost", "Container/the status repeats the config in every state", onStatus(func(s *runtimeapi.ContainerStatus) { s.Annotations = nil })},
		{"log paths are relative", "Container/log paths are absolute, and empty without a log", onStatus(func(s *runtimeapi.ContainerStatus) { s.LogPath = "c.log" })},
		{"the time of the end is that of the question", "Container/the status of an exited container stays", func(s *spoiled, _ *fake.Runtime) {
			var asked atomic.Int64
			s.status = func(s *runtimeapi.ContainerStatus) { s.FinishedAt += asked.Add(1) }
		}},
		{"an unknown container is an unknown error", "Order/ContainerStatus of an unknown container is NotFound", func(s *spoiled, _ *fake.Runtime) {
			s.statusResponse = func(r *runtimeapi.ContainerStatusResponse, err error) (*runtimeapi.ContainerStatusResponse, error) {
				if err != nil {
					err = status.Error(codes.Unknown, err.Error())
				}
				return r, err
			}
		}},
		{"readers see a start before its time", "Concurrency/readers see whole states while pods come and go", onStatus(func(s *runtimeapi.ContainerStatus) { s.StartedAt = 0 })},
		{"a stopped sandbox keeps its address", "Sandbox/a stopped sandbox stays, not ready and without its address", onSandbox(func(s *runtimeapi.PodSandboxStatus) { s.Network.Ip = "10.0.0.1" })},
		{"all sandboxes have one address", "Sandbox/each sandbox has an address of its own", onSandbox(func(s *runtimeapi.PodSandboxStatus) { s.Network.Ip = "10.0.0.1" })},
		{"sandboxes were made long ago", "Sandbox/the creation time is that of the call", onSandbox(func(s *runtimeapi.PodSandboxStatus) { s.CreatedAt = 1 })},
		{"sandboxes have labels of the runtime's", "Sandbox/the status repeats the config", onSandbox(func(s *runtimeapi.PodSandboxStatus) { s.Labels = map[string]string{"runtime": "mine"} })},
		{"states in filters are ignored", "List/containers are selected by state", onFilter(func(f *runtimeapi.ContainerFilter) { f.State = nil })},
		{"labels in filters are ignored", "List/containers are selected by labels", onFilter(func(f *runtimeapi.ContainerFilter) { f.LabelSelector = nil })},
		{"sandboxes in filters are ignored", "List/containers are selected by sandbox", onFilter(func(f *runtimeapi.ContainerFilter) { f.PodSandboxId = "" })},
		{"only the id in a filter counts", "List/the parts of a filter all count", onFilter(func(f *runtimeapi.ContainerFilter) {
			if f.Id != "" {
				f.State, f.PodSandboxId, f.LabelSelector = nil, "", nil
			}
		})},
		{"one of two labels is enough", "List/sandboxes are selected by labels", func(s *spoiled, _ *fake.Runtime) {
			s.sandboxFilter = func(f *runtimeapi.PodSandboxFilter) *runtimeapi.PodSandboxFilter {
				delete(f.GetLabelSelector(), "tier")
				return f
			}
		}},
		{"a list is one short", "List/without a filter everything is listed", func(s *spoiled, _ *fake.Runtime) {
			s.list = func(l []*runtimeapi.Container) []*runtimeapi.Container { return l[:max(0, len(l)-1)] }
		}},
		{"an entry is listed twice", "List/every entry is complete and listed once", func(s *spoiled, _ *fake.Runtime) {
			s.list = func(l []*runtimeapi.Container) []*runtimeapi.Container { return append(l, l...) }
		}},
		{"lists are behind", "List/a listed container says what its status says", func(s *spoiled, _ *fake.Runtime) {
			s.list = func(l []*runtimeapi.Container) []*runtimeapi.Container {
				for _, c := range l {
					c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
				}
				return l
			}
		}},
		{"the network has no condition", "Info/the status has both conditions, and they are true", func(s *spoiled, _ *fake.Runtime) {
			s.conditions = func(s *runtimeapi.RuntimeStatus) { s.Conditions = s.Conditions[:1] }
		}},
		{"the end of a container has no event", "Events/a container's life is four events, in order", func(s *spoiled, _ *fake.Runtime) {
			s.event = func(e *runtimeapi.ContainerEventResponse) bool {
				return e.ContainerEventType != runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT
			}
		}},
	}
}
