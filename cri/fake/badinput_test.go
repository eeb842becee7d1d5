package fake_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

// bad is what a bad request is tried on: a ready sandbox with a running, a
// created and an exited container, in process or over gRPC.
type bad struct {
	runtime cri.RuntimeService
	images  cri.ImageService
	sandbox string
	running string
	created string
	exited  string
}

func (b *bad) create(ctx context.Context, change func(*runtimeapi.ContainerConfig)) error {
	config := containerConfig("p", "new")
	change(config)
	_, err := b.runtime.CreateContainer(ctx, b.sandbox, config, podConfig("p"))
	return err
}

func (b *bad) run(ctx context.Context, change func(*runtimeapi.PodSandboxConfig)) error {
	config := podConfig("new")
	change(config)
	_, err := b.runtime.RunPodSandbox(ctx, config, "")
	return err
}

func imageSpec(name string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: name} }

// noCode stands for a code that is not looked at.
const noCode = codes.Code(100)

type badCase struct {
	name string
	call func(context.Context, *bad) error
	want codes.Code
}

func badSandboxes() []badCase {
	return []badCase{
		{"sandbox without config", func(ctx context.Context, b *bad) error {
			_, err := b.runtime.RunPodSandbox(ctx, nil, "")
			return err
		}, codes.InvalidArgument},
		{"sandbox without metadata", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Metadata = nil })
		}, codes.InvalidArgument},
		{"sandbox without name", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name = "" })
		}, codes.InvalidArgument},
		{"sandbox with a name in use", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Metadata = podConfig("p").Metadata })
		}, codes.AlreadyExists},
		{"sandbox with a handler that does not exist", func(ctx context.Context, b *bad) error {
			_, err := b.runtime.RunPodSandbox(ctx, podConfig("new"), "none")
			return err
		}, codes.Unknown},
		{"sandbox with a label of 1 MiB", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Labels["big"] = strings.Repeat("x", 1<<20) })
		}, codes.InvalidArgument},
		{"sandbox with the longest label", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Labels["big"] = strings.Repeat("x", 4096-3) })
		}, codes.OK},
		{"sandbox with an annotation of 1 MiB", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Annotations["big"] = strings.Repeat("x", 1<<20) })
		}, codes.OK},
		{"sandbox with invalid UTF-8 in a label", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Labels["x"] = "a\xff" })
		}, codes.Internal},
		{"sandbox with invalid UTF-8 in an annotation", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Annotations["\xff"] = "a" })
		}, codes.Internal},
		{"sandbox with invalid UTF-8 in its name", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name = "\xff" })
		}, codes.Internal},
		{"sandbox with the largest attempt", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Attempt = math.MaxUint32 })
		}, codes.OK},
		{"sandbox with an endless hostname", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Hostname = strings.Repeat("h", 65) })
		}, codes.Unknown},
		{"sandbox without anything for Linux", func(ctx context.Context, b *bad) error {
			return b.run(ctx, func(c *runtimeapi.PodSandboxConfig) { c.Linux = nil })
		}, codes.OK},
	}
}

func badContainers() []badCase {
	return []badCase{
		{"container without config", func(ctx context.Context, b *bad) error {
			_, err := b.runtime.CreateContainer(ctx, b.sandbox, nil, podConfig("p"))
			return err
		}, codes.InvalidArgument},
		{"container without its sandbox's config", func(ctx context.Context, b *bad) error {
			_, err := b.runtime.CreateContainer(ctx, b.sandbox, containerConfig("p", "new"), nil)
			return err
		}, codes.InvalidArgument},
		{"container without metadata", func(ctx context.Context, b *bad) error {
			return b.create(ctx, func(c *runtimeapi.ContainerConfig) { c.Metadata = nil })
		}, codes.InvalidArgument},
		{"container without image", func(ctx context.Context, b *bad) error {
			return b.create(ctx, func(c *runtimeapi.ContainerConfig) { c.Image = nil })
		}, codes.InvalidArgument},
		{"container with an image that is not there", func(ctx context.Context, b *bad) error {
			return b.create(ctx, func(c *runtimeapi.ContainerConfig) { c.Image.Image = "none" })
		}, codes.NotFound},
		{"container with a name in use", func(ctx context.Context, b *bad) error {
			return b.create(ctx, func(c *runtimeapi.ContainerConfig) { c.Metadata.Name = "runs" })
		}, codes.AlreadyExists},
		{"container with a label of 1 MiB", func(ctx context.Context, b *bad) error {
			return b.create(ctx, func(c *runtimeapi.ContainerConfig) { c.Labels["big"] = strings.Repeat("x", 1<<20) })
		}, codes.InvalidArgument},
		{"container with invalid UTF-8 in a label", func(ctx context.Context, b *bad) error {
			return b.create(ctx, func(c *runtimeapi.ContainerConfig) { c.Labels["\xc3"] = "a" })
		}, codes.Internal},
		{"container with the largest attempt", func(ctx context.Context, b *bad) error {
			return b.create(ctx, func(c *runtimeapi.ContainerConfig) { c.Metadata.Attempt = math.MaxUint32 })
		}, codes.OK},
		{"container in a sandbox that does not exist", func(ctx context.Context, b *bad) error {
			_, err := b.runtime.CreateContainer(ctx, "none", containerConfig("p", "new"), podConfig("p"))
			return err
		}, codes.NotFound},
		{"container in a sandbox of a cut ID", func(ctx context.Context, b *bad) error {
			_, err := b.runtime.CreateContainer(ctx, b.sandbox[:12], containerConfig("p", "new"), podConfig("p"))
			return err
		}, codes.NotFound},
		{"start of what runs", func(ctx context.Context, b *bad) error {
			return b.runtime.StartContainer(ctx, b.running)
		}, codes.FailedPrecondition},
		{"start of what has exited", func(ctx context.Context, b *bad) error {
			return b.runtime.StartContainer(ctx, b.exited)
		}, codes.FailedPrecondition},
		{"command in a dead container", func(ctx context.Context, b *bad) error {
			_, _, err := b.runtime.ExecSync(ctx, b.exited, []string{"true"}, time.Second)
			return err
		}, codes.FailedPrecondition},
		{"command in a created container", func(ctx context.Context, b *bad) error {
			_, _, err := b.runtime.ExecSync(ctx, b.created, []string{"true"}, time.Second)
			return err
		}, codes.FailedPrecondition},
		{"empty command", func(ctx context.Context, b *bad) error {
			_, _, err := b.runtime.ExecSync(ctx, b.running, nil, time.Second)
			return err
		}, codes.InvalidArgument},
		{"command with a negative timeout", func(ctx context.Context, b *bad) error {
			_, _, err := b.runtime.ExecSync(ctx, b.running, []string{"true"}, -time.Second)
			return err
		}, noCode}, // cri's client refuses it, a runtime takes it as none
		{"command with the longest timeout", func(ctx context.Context, b *bad) error {
			_, _, err := b.runtime.ExecSync(ctx, b.running, []string{"true"}, math.MaxInt64/4)
			return err
		}, codes.OK},
		{"stop with a negative grace", func(ctx context.Context, b *bad) error {
			return b.runtime.StopContainer(ctx, b.running, -5*time.Second)
		}, codes.OK},
		{"log of a dead container reopened", func(ctx context.Context, b *bad) error {
			return b.runtime.ReopenContainerLog(ctx, b.exited)
		}, codes.FailedPrecondition},
		{"statistics of a dead container", func(ctx context.Context, b *bad) error {
			_, err := b.runtime.ContainerStats(ctx, b.exited)
			return err
		}, codes.Unknown},
		{"update without resources", func(ctx context.Context, b *bad) error {
			return b.runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: b.running})
		}, codes.OK},
	}
}

func badImages() []badCase {
	return []badCase{
		{"pull of nothing", func(ctx context.Context, b *bad) error {
			_, err := b.images.PullImage(ctx, nil, nil, nil)
			return err
		}, codes.InvalidArgument},
		{"pull of a name that is none", func(ctx context.Context, b *bad) error {
			_, err := b.images.PullImage(ctx, imageSpec("a b"), nil, nil)
			return err
		}, codes.InvalidArgument},
		{"pull with a Puller that panics", func(ctx context.Context, b *bad) error {
			_, err := b.images.PullImage(ctx, imageSpec("panics"), nil, nil)
			return err
		}, codes.Internal},
		{"status of no image", func(ctx context.Context, b *bad) error {
			_, err := b.images.ImageStatus(ctx, nil, false)
			return err
		}, codes.InvalidArgument},
		{"removal of no image", func(ctx context.Context, b *bad) error {
			return b.images.RemoveImage(ctx, nil)
		}, codes.InvalidArgument},
		{"removal of an image that is not there", func(ctx context.Context, b *bad) error {
			return b.images.RemoveImage(ctx, imageSpec("none"))
		}, codes.OK},
		{"a hook that panics", func(ctx context.Context, b *bad) error {
			_, err := b.images.ImageFsInfo(ctx)
			return err
		}, codes.Internal},
	}
}

func (b *bad) empty(t *testing.T) {
	containers, err := b.runtime.ListContainers(t.Context(), &runtimeapi.ContainerFilter{Id: b.running[:12]})
	require.NoError(t, err)
	require.Empty(t, containers, "the ID is the whole ID")
	containers, err = b.runtime.ListContainers(t.Context(), &runtimeapi.ContainerFilter{Id: "none", PodSandboxId: "none"})
	require.NoError(t, err)
	require.Empty(t, containers)
	containers, err = b.runtime.ListContainers(t.Context(), &runtimeapi.ContainerFilter{Id: b.running, PodSandboxId: "none"})
	require.NoError(t, err)
	require.Empty(t, containers)
	sandboxes, err := b.runtime.ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{Id: b.sandbox[:12]})
	require.NoError(t, err)
	require.Empty(t, sandboxes)
	stats, err := b.runtime.ListContainerStats(t.Context(), &runtimeapi.ContainerStatsFilter{Id: "none"})
	require.NoError(t, err)
	require.Empty(t, stats)
}

// client gives the two services of cri's client over gRPC.
func client(t *testing.T, rt *fake.Runtime) (cri.RuntimeService, cri.ImageService) {
	t.Helper()
	cfg := cri.ClientConfig{Endpoint: "/run/fake.sock", Dial: dialer(t, rt), StreamLists: true}
	runtime, err := cri.DialRuntime(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, runtime.Close()) })
	images, err := cri.DialImages(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, images.Close()) })
	return runtime, images
}

func newBad(t *testing.T, overGRPC bool) *bad {
	panicking := false
	rt := start(t, fake.Config{
		Images:   []fake.Image{{Name: "busybox"}},
		Programs: fake.ByContainer(map[string]fake.Program{"runs": stubborn, "exits": fake.Exit(0)}, nil),
		Pull: func(_ context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig) (fake.Image, error) {
			panic("no " + image.Image)
		},
		Intercept: func(_ context.Context, call string, _ any) error {
			if call == "ImageFsInfo" && panicking {
				panic("oh")
			}
			return nil
		},
	})
	b := &bad{runtime: rt, images: rt}
	var err error
	b.sandbox, err = rt.RunPodSandbox(t.Context(), podConfig("p"), "")
	require.NoError(t, err)
	b.running = add(t, rt, b.sandbox, "runs", true)
	b.exited = add(t, rt, b.sandbox, "exits", true)
	b.created = add(t, rt, b.sandbox, "created", false)
	synctest.Wait()
	if overGRPC {
		b.runtime, b.images = client(t, rt)
	}
	panicking = true
	return b
}

// Every bad request is answered, at once, the same way in process and over gRPC,
// and leaves things as they were.
func TestBadRequests(t *testing.T) {
	for _, transport := range []string{"in process", "gRPC"} {
		for _, tc := range append(append(badSandboxes(), badContainers()...), badImages()...) {
			bubble(t, transport+"/"+tc.name, func(t *testing.T) {
				b := newBad(t, transport == "gRPC")
				began := time.Now()
				err := tc.call(t.Context(), b)
				require.Zero(t, time.Since(began))
				if tc.want != noCode {
					require.Equal(t, tc.want, status.Code(err), "%v", err)
				}
				require.NoError(t, b.create(t.Context(), func(*runtimeapi.ContainerConfig) {}), "the name is not reserved")
				b.empty(t)
			})
		}
	}
}

// Every call about one thing answers NotFound for one that does not exist, also
// for a cut ID, except for removals; with an empty ID all fail otherwise.
func TestUnknownIDs(t *testing.T) {
	rt := start(t, fake.Config{AnyImage: true})
	sandboxID, id := running(t, rt)
	ctx := t.Context()
	calls := map[string]func(string) error{
		"StartContainer":     func(id string) error { return rt.StartContainer(ctx, id) },
		"StopContainer":      func(id string) error { return rt.StopContainer(ctx, id, 0) },
		"RemoveContainer":    func(id string) error { return rt.RemoveContainer(ctx, id) },
		"ContainerStatus":    func(id string) error { _, err := rt.ContainerStatus(ctx, id, true); return err },
		"ContainerStats":     func(id string) error { _, err := rt.ContainerStats(ctx, id); return err },
		"ReopenContainerLog": func(id string) error { return rt.ReopenContainerLog(ctx, id) },
		"ExecSync":           func(id string) error { _, _, err := rt.ExecSync(ctx, id, []string{"x"}, 0); return err },
		"UpdateContainerResources": func(id string) error {
			return rt.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id})
		},
		"StopPodSandbox":   func(id string) error { return rt.StopPodSandbox(ctx, id) },
		"RemovePodSandbox": func(id string) error { return rt.RemovePodSandbox(ctx, id) },
		"PodSandboxStatus": func(id string) error { _, err := rt.PodSandboxStatus(ctx, id, true); return err },
		"PodSandboxStats":  func(id string) error { _, err := rt.PodSandboxStats(ctx, id); return err },
		"UpdatePodSandboxResources": func(id string) error {
			return rt.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: id})
		},
	}
	for name, call := range calls {
		for _, unknown := range []string{"none", id[:63], sandboxID[:12]} {
			err := call(unknown)
			if strings.HasPrefix(name, "Remove") {
				require.NoError(t, err, name)
			} else {
				require.True(t, cri.IsNotFound(err), "%s(%q): %v", name, unknown, err)
			}
		}
		require.Equal(t, codes.InvalidArgument, status.Code(call("")), name)
	}
	require.Equal(t, "RUNNING 0 ", brief(statusOf(t, rt, id)))
}

// Of many that ask for one name at once, one gets it.
func TestOneNameForMany(t *testing.T) {
	rt := start(t, fake.Config{AnyImage: true})
	sandboxID, err := rt.RunPodSandbox(t.Context(), podConfig("p"), "")
	require.NoError(t, err)
	var wg sync.WaitGroup
	errs := make([]error, 40)
	for i := range errs {
		wg.Go(func() {
			if i%2 == 0 {
				_, errs[i] = rt.CreateContainer(t.Context(), sandboxID, containerConfig("p", "c"), podConfig("p"))
			} else {
				_, errs[i] = rt.RunPodSandbox(t.Context(), podConfig("q"), "")
			}
		})
	}
	wg.Wait()
	count := map[codes.Code]int{}
	for _, err := range errs {
		count[status.Code(err)]++
	}
	require.Equal(t, map[codes.Code]int{codes.OK: 2, codes.AlreadyExists: 38}, count)
}

// Graces that no duration holds are as long as can be, not none.
func TestEndlessGrace(t *testing.T) {
	for _, grace := range []int64{math.MaxInt64, math.MaxInt64 / 2, int64(math.MaxInt64 / time.Second)} {
		synctest.Test(t, func(t *testing.T) {
			rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(stubborn)})
			_, id := running(t, rt)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			stub := runtimeapi.NewRuntimeServiceClient(dial(t, rt))
			_, err := stub.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: grace})
			require.Equal(t, codes.DeadlineExceeded, status.Code(err))
			require.Equal(t, "RUNNING 0 ", brief(statusOf(t, rt, id)))

			ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			require.ErrorIs(t, rt.StopContainer(ctx, id, math.MaxInt64), context.DeadlineExceeded)
			require.Equal(t, "RUNNING 0 ", brief(statusOf(t, rt, id)))
		})
	}
}
