package fake_test

import (
	"context"
	"fmt"
	"math"
	"strings"
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

// bad is a runtime with a ready sandbox that has a running, a created and an exited container, in
// process or over gRPC.
type bad struct {
	runtime cri.RuntimeService
	images  cri.ImageService
	sandbox string
	ids     map[string]string // of containers, by state
}

func imageSpec(name string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: name} }

// noCode accepts any code.
const noCode = codes.Code(100)

var large = strings.Repeat("x", 1<<20)

// badCall is an invalid or extreme call.
type badCall struct {
	call func(context.Context, *bad) error
	want codes.Code
}

func badSandbox(want codes.Code, change func(*runtimeapi.PodSandboxConfig)) badCall {
	return badCall{func(ctx context.Context, b *bad) error {
		config := podConfig("new")
		change(config)
		_, err := b.runtime.RunPodSandbox(ctx, config, "")
		return err
	}, want}
}

func badContainer(want codes.Code, change func(*runtimeapi.ContainerConfig)) badCall {
	return badCall{func(ctx context.Context, b *bad) error { return b.create(ctx, b.sandbox, change) }, want}
}

func badExec(want codes.Code, timeout time.Duration, state string, command ...string) badCall {
	return badCall{func(ctx context.Context, b *bad) error {
		_, _, err := b.runtime.ExecSync(ctx, b.ids[state], command, timeout)
		return err
	}, want}
}

func badPull(want codes.Code, image *runtimeapi.ImageSpec) badCall {
	return badCall{func(ctx context.Context, b *bad) error {
		_, err := b.images.PullImage(ctx, image, nil, nil)
		return err
	}, want}
}

var badCalls = map[string]badCall{
	"sandbox without config": {func(ctx context.Context, b *bad) error {
		_, err := b.runtime.RunPodSandbox(ctx, nil, "")
		return err
	}, codes.InvalidArgument},
	"sandbox without metadata":    badSandbox(codes.InvalidArgument, func(c *runtimeapi.PodSandboxConfig) { c.Metadata = nil }),
	"sandbox without name":        badSandbox(codes.InvalidArgument, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name = "" }),
	"sandbox with a name in use":  badSandbox(codes.AlreadyExists, func(c *runtimeapi.PodSandboxConfig) { c.Metadata = podConfig("p").Metadata }),
	"sandbox with 1 MiB of label": badSandbox(codes.InvalidArgument, func(c *runtimeapi.PodSandboxConfig) { c.Labels["big"] = large }),
	"sandbox with the longest label": badSandbox(codes.OK, func(c *runtimeapi.PodSandboxConfig) {
		c.Labels["big"] = strings.Repeat("x", 4096-3)
	}),
	"sandbox with 1 MiB of annotation":           badSandbox(codes.OK, func(c *runtimeapi.PodSandboxConfig) { c.Annotations["big"] = large }),
	"sandbox with invalid UTF-8 in a label":      badSandbox(codes.Internal, func(c *runtimeapi.PodSandboxConfig) { c.Labels["x"] = "a\xff" }),
	"sandbox with invalid UTF-8 in a annotation": badSandbox(codes.Internal, func(c *runtimeapi.PodSandboxConfig) { c.Annotations["\xff"] = "a" }),
	"sandbox with invalid UTF-8 in its name":     badSandbox(codes.Internal, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name = "\xff" }),
	"sandbox with the largest attempt":           badSandbox(codes.OK, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Attempt = math.MaxUint32 }),
	"sandbox with an endless hostname":           badSandbox(codes.Unknown, func(c *runtimeapi.PodSandboxConfig) { c.Hostname = large[:65] }),
	"sandbox without a linux section":            badSandbox(codes.OK, func(c *runtimeapi.PodSandboxConfig) { c.Linux = nil }),
	"sandbox with an unknown handler": {func(ctx context.Context, b *bad) error {
		_, err := b.runtime.RunPodSandbox(ctx, podConfig("new"), "none")
		return err
	}, codes.Unknown},
	"container without config": {func(ctx context.Context, b *bad) error {
		_, err := b.runtime.CreateContainer(ctx, b.sandbox, nil, podConfig("p"))
		return err
	}, codes.InvalidArgument},
	"container without its sandbox's config": {func(ctx context.Context, b *bad) error {
		_, err := b.runtime.CreateContainer(ctx, b.sandbox, containerConfig("p", "new"), nil)
		return err
	}, codes.InvalidArgument},
	"container without metadata":              badContainer(codes.InvalidArgument, func(c *runtimeapi.ContainerConfig) { c.Metadata = nil }),
	"container without image":                 badContainer(codes.InvalidArgument, func(c *runtimeapi.ContainerConfig) { c.Image = nil }),
	"container with a name in use":            badContainer(codes.AlreadyExists, func(c *runtimeapi.ContainerConfig) { c.Metadata.Name = "runs" }),
	"container with 1 MiB of label":           badContainer(codes.InvalidArgument, func(c *runtimeapi.ContainerConfig) { c.Labels["big"] = large }),
	"container with invalid UTF-8 in a label": badContainer(codes.Internal, func(c *runtimeapi.ContainerConfig) { c.Labels["\xc3"] = "a" }),
	"container with the largest attempt":      badContainer(codes.OK, func(c *runtimeapi.ContainerConfig) { c.Metadata.Attempt = math.MaxUint32 }),
	"container in a sandbox of a cut ID":      {func(ctx context.Context, b *bad) error { return b.create(ctx, b.sandbox[:12], unchanged) }, codes.NotFound},
	"start of a running container":            {func(ctx context.Context, b *bad) error { return b.runtime.StartContainer(ctx, b.ids["running"]) }, codes.FailedPrecondition},
	"start of an exited container":            {func(ctx context.Context, b *bad) error { return b.runtime.StartContainer(ctx, b.ids["exited"]) }, codes.FailedPrecondition},
	"command in a dead container":             badExec(codes.FailedPrecondition, time.Second, "exited", "true"),
	"command in a created container":          badExec(codes.FailedPrecondition, time.Second, "created", "true"),
	"empty command":                           badExec(codes.InvalidArgument, time.Second, "running"),
	"command with a negative timeout":         badExec(noCode, -time.Second, "running", "true"), // cri's client refuses it; a runtime treats it as no timeout
	"command with the longest timeout":        badExec(codes.OK, math.MaxInt64/4, "running", "true"),
	"log of a dead container reopened":        {func(ctx context.Context, b *bad) error { return b.runtime.ReopenContainerLog(ctx, b.ids["exited"]) }, codes.FailedPrecondition},
	"statistics of a dead container": {func(ctx context.Context, b *bad) error {
		_, err := b.runtime.ContainerStats(ctx, b.ids["exited"])
		return err
	}, codes.Unknown},
	"update without resources": {func(ctx context.Context, b *bad) error {
		return b.runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: b.ids["running"]})
	}, codes.OK},
	"pull of nothing":                badPull(codes.InvalidArgument, nil),
	"pull of an invalid name":        badPull(codes.InvalidArgument, imageSpec("a b")),
	"pull with a Puller that panics": badPull(codes.Internal, imageSpec("panics")),
	"status of no image":             {func(ctx context.Context, b *bad) error { _, err := b.images.ImageStatus(ctx, nil, false); return err }, codes.InvalidArgument},
	"removal of no image":            {func(ctx context.Context, b *bad) error { return b.images.RemoveImage(ctx, nil) }, codes.InvalidArgument},
	"a hook that panics":             {func(ctx context.Context, b *bad) error { _, err := b.images.ImageFsInfo(ctx); return err }, codes.Internal},
}

func unchanged(*runtimeapi.ContainerConfig) {}

func (b *bad) create(ctx context.Context, sandbox string, change func(*runtimeapi.ContainerConfig)) error {
	config := containerConfig("p", "new")
	change(config)
	id, err := b.runtime.CreateContainer(ctx, sandbox, config, podConfig("p"))
	if (id == "") != (err != nil) {
		return fmt.Errorf("the ID is %q with error %w", id, err)
	}
	return err
}

// client returns the two services of cri's client over gRPC.
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
	b := &bad{runtime: rt, images: rt, sandbox: sandbox(t, rt, "p")}
	b.ids = map[string]string{
		"running": add(t, rt, b.sandbox, "runs", true), "exited": add(t, rt, b.sandbox, "exits", true), "created": add(t, rt, b.sandbox, "created", false),
	}
	synctest.Wait()
	if overGRPC {
		b.runtime, b.images = client(t, rt)
	}
	panicking = true
	return b
}

// Every bad request returns at once, with the same result in process and over gRPC, and changes no
// state.
func TestBadRequests(t *testing.T) {
	for _, transport := range []string{"in process", "gRPC"} {
		for name, tc := range badCalls {
			bubble(t, transport+"/"+name, func(t *testing.T) {
				b := newBad(t, transport == "gRPC")
				began := time.Now()
				err := tc.call(t.Context(), b)
				require.Zero(t, time.Since(began))
				if tc.want != noCode {
					require.Equal(t, tc.want, status.Code(err), "%v", err)
				}
				require.NoError(t, b.create(t.Context(), b.sandbox, unchanged), "the name is not reserved")
			})
		}
	}
}

// Grace periods beyond the range of a duration act as the longest one, not as zero.
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
