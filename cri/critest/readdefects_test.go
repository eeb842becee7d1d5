package critest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// onEvent edits events; it drops an event if edit returns false.
func onEvent(edit func(e *runtimeapi.ContainerEventResponse) bool) func(*spoiled, *fake.Runtime) {
	return func(s *spoiled, _ *fake.Runtime) { s.event = edit }
}

func eventDefects() []defect {
	var count, streams atomic.Int32
	return []defect{
		{name: "a removal has no event", caughtBy: "Events/a container's life is four events, in order", runtime: onEvent(func(e *runtimeapi.ContainerEventResponse) bool {
			return e.ContainerEventType != deletedEvent || len(e.ContainersStatuses) == 0 && count.Add(1) < 2
		})},
		{name: "sandboxes have no events", caughtBy: "Events/a sandbox has events under its own ID", runtime: onEvent(func(e *runtimeapi.ContainerEventResponse) bool {
			return e.ContainerId != e.PodSandboxStatus.GetId()
		})},
		{name: "events do not describe the pod", caughtBy: "Events/an event describes the pod at that moment", runtime: onEvent(func(e *runtimeapi.ContainerEventResponse) bool {
			e.PodSandboxStatus = nil
			return true
		})},
		{name: "events have no exit code", caughtBy: "Events/a container that ends by itself has a stopped event with its exit code", runtime: onEvent(func(e *runtimeapi.ContainerEventResponse) bool {
			for _, s := range e.ContainersStatuses {
				s.ExitCode = 0
			}
			return true
		})},
		{name: "everything is started", caughtBy: "Events/a container that cannot be started has no started event", runtime: onEvent(func(e *runtimeapi.ContainerEventResponse) bool {
			if e.ContainerEventType == createdEvent {
				e.ContainerEventType = startedEvent
			}
			return true
		})},
		{name: "there is one stream", caughtBy: "Events/every stream gets every event", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.events = func(ctx context.Context, run func(context.Context) error) error {
				if streams.Add(1) == 1 {
					return run(ctx)
				}
				<-ctx.Done()
				return ctx.Err()
			}
		}},
		{name: "a stream breaks at its end", caughtBy: "Events/a stream ends with its context", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.events = func(ctx context.Context, run func(context.Context) error) error {
				_ = run(ctx)
				return errors.New("broken")
			}
		}},
		{name: "events are early", caughtBy: "Events/a stop can be seen before its event comes", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.status = func(c *runtimeapi.ContainerStatus) { c.State = runtimeapi.ContainerState_CONTAINER_RUNNING }
		}},
		{name: "every fiftieth event is lost", caughtBy: "Events/no event of twenty short containers is missed", runtime: onEvent(func(*runtimeapi.ContainerEventResponse) bool {
			return count.Add(1)%50 != 0
		})},
	}
}

func onPull(pull func(ctx context.Context, name string, run func(context.Context) (string, error)) (string, error)) func(*spoiledImages, *fake.Runtime) {
	return func(s *spoiledImages, _ *fake.Runtime) { s.pull = pull }
}

func onRemoveImage(remove func(ctx context.Context, rt *fake.Runtime, name string) error) func(*spoiledImages, *fake.Runtime) {
	return func(s *spoiledImages, rt *fake.Runtime) {
		s.remove = func(ctx context.Context, name string) error { return remove(ctx, rt, name) }
	}
}

func imageDefects() []defect {
	var count atomic.Int32
	keep := onRemoveImage(func(context.Context, *fake.Runtime, string) error { return nil })
	return []defect{
		{name: "an absent image is an error", caughtBy: "Images/an image that is absent has no status, and that is no error", images: func(s *spoiledImages, _ *fake.Runtime) {
			s.status = func(r *runtimeapi.ImageStatusResponse) error {
				if r.Image == nil && count.Add(1) > 1 { // the first image is the case's own
					return status.Error(codes.NotFound, "no such image")
				}
				return nil
			}
		}},
		{name: "images have no size", caughtBy: "Images/a pulled image is found by tag, digest and ID", images: func(s *spoiledImages, _ *fake.Runtime) {
			s.status = func(r *runtimeapi.ImageStatusResponse) error {
				if r.Image != nil {
					r.Image.Size = 0
				}
				return nil
			}
		}},
		{name: "lists of images are empty", caughtBy: "Images/a filtered list has the requested image", images: func(s *spoiledImages, _ *fake.Runtime) {
			s.list = func([]*runtimeapi.Image) []*runtimeapi.Image { return nil }
		}},
		{name: "an image cannot be removed by tag", caughtBy: "Images/removing by tag removes the image", images: keep},
		{name: "an image cannot be removed by ID", caughtBy: "Images/removing by ID removes the image with all its names", images: keep},
		{name: "removing an absent image fails", caughtBy: "Images/removing an absent image succeeds", images: onRemoveImage(func(ctx context.Context, rt *fake.Runtime, name string) error {
			r, err := rt.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name}, false)
			if err == nil && r.Image == nil {
				return status.Error(codes.NotFound, "no such image")
			}
			return errors.Join(err, rt.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: name}))
		})},
		{name: "every pull has its own reference", caughtBy: "Images/pulling again changes nothing", images: onPull(func(ctx context.Context, _ string, run func(context.Context) (string, error)) (string, error) {
			_, err := run(ctx)
			return strings.Repeat("x", int(count.Add(1))), err
		})},
		{name: "one pull at a time", caughtBy: "Images/pulls of one image at the same time all succeed", images: onPull(func(ctx context.Context, _ string, run func(context.Context) (string, error)) (string, error) {
			defer count.Add(-1)
			if count.Add(1) > 1 {
				return "", errors.New("the image is being pulled")
			}
			time.Sleep(time.Second)
			return run(ctx)
		})},
		{name: "every image has a tag", caughtBy: "Images/an image pulled by digest has no tag", images: func(s *spoiledImages, _ *fake.Runtime) {
			s.status = func(r *runtimeapi.ImageStatusResponse) error {
				if r.Image != nil {
					r.Image.RepoTags = []string{otherName}
				}
				return nil
			}
		}},
		{name: "failures have no code", caughtBy: "Images/an image that no registry has is NotFound", images: onPull(func(ctx context.Context, _ string, run func(context.Context) (string, error)) (string, error) {
			ref, err := run(ctx)
			if err != nil {
				err = status.Error(codes.Unknown, err.Error())
			}
			return ref, err
		})},
		{name: "malformed names are looked for", caughtBy: "Images/malformed names are refused", images: onPull(func(ctx context.Context, _ string, run func(context.Context) (string, error)) (string, error) {
			ref, err := run(ctx)
			if err != nil {
				err = status.Error(codes.NotFound, err.Error())
			}
			return ref, err
		})},
		{name: "pulls go on without their callers", caughtBy: "Images/a cancelled pull adds no image", images: onPull(func(ctx context.Context, _ string, run func(context.Context) (string, error)) (string, error) {
			return run(context.WithoutCancel(ctx))
		})},
		{name: "the file system is nowhere", caughtBy: "Images/the file system of images is described", images: func(s *spoiledImages, _ *fake.Runtime) {
			s.fsInfo = func(r *runtimeapi.ImageFsInfoResponse) { r.ImageFilesystems[0].FsId = nil }
		}},
		{name: "an image in use stays", caughtBy: "Images/a container continues without its image", images: onRemoveImage(func(ctx context.Context, rt *fake.Runtime, name string) error {
			list, err := rt.ListContainers(ctx, nil)
			if err != nil || len(list) > 0 {
				return errors.New("the image is in use")
			}
			return rt.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: name})
		})},
		{name: "a container brings its image", caughtBy: "Images/no container is made from an image that is absent", runtime: func(s *spoiled, rt *fake.Runtime) {
			s.create = func(c *runtimeapi.ContainerConfig) error {
				c.Image.Image = "critest.test/busybox:1"
				return nil
			}
		}},
	}
}

func onStats(edit func(s *runtimeapi.ContainerStats, err error) (*runtimeapi.ContainerStats, error)) func(*spoiled, *fake.Runtime) {
	return func(s *spoiled, _ *fake.Runtime) { s.stats = edit }
}

func statsDefects() []defect {
	fixed := func(s *runtimeapi.ContainerStats, err error) (*runtimeapi.ContainerStats, error) {
		if s == nil {
			s = &runtimeapi.ContainerStats{}
		}
		s.Cpu = &runtimeapi.CpuUsage{Timestamp: 1, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: 1}}
		return s, nil
	}
	return []defect{
		{name: "figures have no labels", caughtBy: "Stats/a running container has figures", runtime: onStats(
			func(s *runtimeapi.ContainerStats, err error) (*runtimeapi.ContainerStats, error) {
				s.GetAttributes().Labels = nil
				return s, err
			})},
		{name: "processor time stands still", caughtBy: "Stats/the processor time of a container that works grows", runtime: onStats(fixed)},
		{name: "the dead use the processor", caughtBy: "Stats/a container that does not run has no processor time", runtime: onStats(fixed)},
		{name: "filters of figures are ignored", caughtBy: "Stats/statistics of containers are listed by ID, sandbox and label", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.statsFilter = func(f *runtimeapi.ContainerStatsFilter) *runtimeapi.ContainerStatsFilter { return nil }
		}},
		{name: "an unknown object has figures", caughtBy: "Stats/statistics of an unknown object are NotFound or an empty list", runtime: onStats(fixed)},
		{name: "sandboxes have no network", caughtBy: "Stats/a ready sandbox has figures, and its containers'", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.sandboxStats = func(p *runtimeapi.PodSandboxStats, err error) (*runtimeapi.PodSandboxStats, error) {
				p.GetLinux().Network = nil
				return p, err
			}
		}},
		{name: "stopped sandboxes have figures", caughtBy: "Stats/a stopped sandbox has no figures", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.sandboxStats = func(p *runtimeapi.PodSandboxStats, _ error) (*runtimeapi.PodSandboxStats, error) { return p, nil }
		}},
	}
}
