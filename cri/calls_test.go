package cri

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// everyCall makes each call of both services once. name is the call's name, want
// its deadline for T = 2m, 0 for none.
var everyCall = []struct {
	name  string
	want  time.Duration
	reply proto.Message
	call  func(context.Context, *RuntimeClient, *ImageClient) error
}{
	{"Version", 2 * time.Minute, goodVersion(), func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.Version(ctx)
		return err
	}},
	{"Status", 2 * time.Minute, goodStatus(), func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.Status(ctx, true)
		return err
	}},
	{"RuntimeConfig", 2 * time.Minute, &runtimeapi.RuntimeConfigResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.RuntimeConfig(ctx)
		return err
	}},
	{"UpdateRuntimeConfig", 2 * time.Minute, &runtimeapi.UpdateRuntimeConfigResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		return r.UpdateRuntimeConfig(ctx, &runtimeapi.RuntimeConfig{})
	}},
	{"RunPodSandbox", 4 * time.Minute, &runtimeapi.RunPodSandboxResponse{PodSandboxId: "s"}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.RunPodSandbox(ctx, &runtimeapi.PodSandboxConfig{}, "runc")
		return err
	}},
	{"StopPodSandbox", 2 * time.Minute, &runtimeapi.StopPodSandboxResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		return r.StopPodSandbox(ctx, "s")
	}},
	{"RemovePodSandbox", 2 * time.Minute, &runtimeapi.RemovePodSandboxResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		return r.RemovePodSandbox(ctx, "s")
	}},
	{"PodSandboxStatus", 2 * time.Minute, goodSandbox(), func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.PodSandboxStatus(ctx, "s", false)
		return err
	}},
	{"ListPodSandbox", 2 * time.Minute, &runtimeapi.ListPodSandboxResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.ListPodSandbox(ctx, nil)
		return err
	}},
	{"UpdatePodSandboxResources", 2 * time.Minute, &runtimeapi.UpdatePodSandboxResourcesResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		return r.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: "s"})
	}},
	{"CreateContainer", 2 * time.Minute, &runtimeapi.CreateContainerResponse{ContainerId: "c"}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.CreateContainer(ctx, "s", &runtimeapi.ContainerConfig{}, &runtimeapi.PodSandboxConfig{})
		return err
	}},
	{"StartContainer", 2 * time.Minute, &runtimeapi.StartContainerResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		return r.StartContainer(ctx, "c")
	}},
	{"StopContainer", 2*time.Minute + 30*time.Second, &runtimeapi.StopContainerResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		return r.StopContainer(ctx, "c", 30*time.Second)
	}},
	{"RemoveContainer", 2 * time.Minute, &runtimeapi.RemoveContainerResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		return r.RemoveContainer(ctx, "c")
	}},
	{"ContainerStatus", 2 * time.Minute, goodContainer(), func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.ContainerStatus(ctx, "c", false)
		return err
	}},
	{"ListContainers", 2 * time.Minute, &runtimeapi.ListContainersResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.ListContainers(ctx, nil)
		return err
	}},
	{"UpdateContainerResources", 2 * time.Minute, &runtimeapi.UpdateContainerResourcesResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		return r.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: "c"})
	}},
	{"ReopenContainerLog", 2 * time.Minute, &runtimeapi.ReopenContainerLogResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		return r.ReopenContainerLog(ctx, "c")
	}},
	{"CheckpointContainer", 5 * time.Minute, &runtimeapi.CheckpointContainerResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		return r.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{ContainerId: "c", Timeout: 300})
	}},
	{"ExecSync", 2*time.Minute + 7*time.Second, &runtimeapi.ExecSyncResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, _, err := r.ExecSync(ctx, "c", []string{"true"}, 7*time.Second)
		return err
	}},
	{"Exec", 2 * time.Minute, &runtimeapi.ExecResponse{Url: "u"}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: "c"})
		return err
	}},
	{"Attach", 2 * time.Minute, &runtimeapi.AttachResponse{Url: "u"}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: "c"})
		return err
	}},
	{"PortForward", 2 * time.Minute, &runtimeapi.PortForwardResponse{Url: "u"}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: "s"})
		return err
	}},
	{"ContainerStats", 2 * time.Minute, &runtimeapi.ContainerStatsResponse{Stats: &runtimeapi.ContainerStats{}}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.ContainerStats(ctx, "c")
		return err
	}},
	{"ListContainerStats", 2 * time.Minute, &runtimeapi.ListContainerStatsResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.ListContainerStats(ctx, nil)
		return err
	}},
	{"PodSandboxStats", 2 * time.Minute, &runtimeapi.PodSandboxStatsResponse{Stats: &runtimeapi.PodSandboxStats{}}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.PodSandboxStats(ctx, "s")
		return err
	}},
	{"ListPodSandboxStats", 2 * time.Minute, &runtimeapi.ListPodSandboxStatsResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.ListPodSandboxStats(ctx, nil)
		return err
	}},
	{"ListMetricDescriptors", 2 * time.Minute, &runtimeapi.ListMetricDescriptorsResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.ListMetricDescriptors(ctx)
		return err
	}},
	{"ListPodSandboxMetrics", 2 * time.Minute, &runtimeapi.ListPodSandboxMetricsResponse{}, func(ctx context.Context, r *RuntimeClient, _ *ImageClient) error {
		_, err := r.ListPodSandboxMetrics(ctx)
		return err
	}},
	{"ListImages", 2 * time.Minute, &runtimeapi.ListImagesResponse{}, func(ctx context.Context, _ *RuntimeClient, i *ImageClient) error {
		_, err := i.ListImages(ctx, nil)
		return err
	}},
	{"ImageStatus", 2 * time.Minute, &runtimeapi.ImageStatusResponse{}, func(ctx context.Context, _ *RuntimeClient, i *ImageClient) error {
		_, err := i.ImageStatus(ctx, &runtimeapi.ImageSpec{}, false)
		return err
	}},
	{"PullImage", 0, &runtimeapi.PullImageResponse{ImageRef: "sha256:1"}, func(ctx context.Context, _ *RuntimeClient, i *ImageClient) error {
		_, err := i.PullImage(ctx, &runtimeapi.ImageSpec{}, nil, nil)
		return err
	}},
	{"RemoveImage", 2 * time.Minute, &runtimeapi.RemoveImageResponse{}, func(ctx context.Context, _ *RuntimeClient, i *ImageClient) error {
		return i.RemoveImage(ctx, &runtimeapi.ImageSpec{})
	}},
	{"ImageFsInfo", 2 * time.Minute, &runtimeapi.ImageFsInfoResponse{}, func(ctx context.Context, _ *RuntimeClient, i *ImageClient) error {
		_, err := i.ImageFsInfo(ctx)
		return err
	}},
}

func goodStatus() *runtimeapi.StatusResponse {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: true},
	}}}
}

func goodSandbox() *runtimeapi.PodSandboxStatusResponse {
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: "s", CreatedAt: 1, Metadata: &runtimeapi.PodSandboxMetadata{Name: "n", Namespace: "ns", Uid: "u"},
	}}
}

func goodContainer() *runtimeapi.ContainerStatusResponse {
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: "c", CreatedAt: 1, Metadata: &runtimeapi.ContainerMetadata{Name: "n"},
		Image: &runtimeapi.ImageSpec{Image: "busybox"}, ImageRef: "sha256:1",
	}}
}

// bothClients serves a script with a good reply for each call.
func bothClients(t *testing.T) (*script, *RuntimeClient, *ImageClient) {
	s := newScript()
	for _, c := range everyCall {
		s.reply(c.name, c.reply)
	}
	cfg := s.inMemory(t)
	return s, dialRuntime(t, cfg), dialImages(t, cfg)
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, runtime, images := bothClients(t)
		for _, c := range everyCall {
			before := len(s.calls(c.name))
			require.NoError(t, c.call(t.Context(), runtime, images), c.name)
			seen := s.calls(c.name)
			require.Len(t, seen, before+1, c.name)
			last := seen[before]
			require.Equal(t, c.want != 0, last.bounded, "%s has a deadline", c.name)
			require.Equal(t, c.want, last.left, "%s: deadline", c.name)
		}
	})
}

// The last row that everyCall lacks is the event stream, tested in events_test.go.
func TestEveryCallIsTested(t *testing.T) {
	tested := map[string]bool{"GetContainerEvents": true}
	for _, c := range everyCall {
		tested[c.name] = true
	}
	operations := map[string]bool{}
	for id := range numCalls {
		spec := id.spec()
		require.True(t, tested[spec.name], "%d %q has no row in everyCall", id, spec.name)
		require.False(t, operations[spec.operation], "operation %q names two calls", spec.operation)
		operations[spec.operation] = true
	}
	require.Len(t, tested, int(numCalls))
}

// A call that hangs fails when its deadline runs out, not before and not later,
// and names endpoint, call and deadline.
func TestHangingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, runtime, images := bothClients(t)
		for _, c := range everyCall {
			if c.want == 0 {
				continue
			}
			s.hanging(c.name, true)
			begin := time.Now()
			err := c.call(t.Context(), runtime, images)
			require.Equal(t, c.want, time.Since(begin), c.name)
			requireCallError(t, err, c.name)
			require.ErrorIs(t, err, context.DeadlineExceeded, c.name)
			require.NotErrorIs(t, err, context.Canceled, c.name)
			require.ErrorContains(t, err, c.want.String(), c.name)

			s.hanging(c.name, false)
			require.NoError(t, c.call(t.Context(), runtime, images), "%s after it hung", c.name)
		}
	})
}

func TestArgumentsInSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, runtime, _ := bothClients(t)
		for _, c := range []struct {
			grace    time.Duration
			seconds  int64
			deadline time.Duration
		}{
			{0, 0, 2 * time.Minute},
			{-time.Second, 0, 2 * time.Minute},
			{time.Nanosecond, 1, 2*time.Minute + time.Second},
			{2500 * time.Millisecond, 3, 2*time.Minute + 3*time.Second},
			{1<<63 - 1, int64(longest / time.Second), 2*time.Minute + longest},
		} {
			require.NoError(t, runtime.StopContainer(t.Context(), "c", c.grace))
			seen := s.calls("StopContainer")
			last := seen[len(seen)-1]
			require.Equal(t, c.seconds, last.request.(*runtimeapi.StopContainerRequest).Timeout, "grace %v", c.grace)
			require.Equal(t, c.deadline, last.left, "grace %v", c.grace)
		}
		for _, c := range []struct {
			timeout  time.Duration
			seconds  int64
			deadline time.Duration
		}{
			{0, 0, 0},
			{-time.Second, 0, 0},
			{300 * time.Millisecond, 1, 2*time.Minute + 300*time.Millisecond},
			{1900 * time.Millisecond, 1, 2*time.Minute + 1900*time.Millisecond},
		} {
			_, _, err := runtime.ExecSync(t.Context(), "c", nil, c.timeout)
			require.NoError(t, err)
			seen := s.calls("ExecSync")
			last := seen[len(seen)-1]
			require.Equal(t, c.seconds, last.request.(*runtimeapi.ExecSyncRequest).Timeout, "timeout %v", c.timeout)
			require.Equal(t, c.deadline, last.left, "timeout %v", c.timeout)
		}
		require.NoError(t, runtime.CheckpointContainer(t.Context(), &runtimeapi.CheckpointContainerRequest{Timeout: 1}))
		require.Equal(t, 2*time.Minute, s.calls("CheckpointContainer")[0].left)
	})
}

// The caller's context shortens a deadline and never lengthens it.
func TestCallersDeadlineCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, runtime, _ := bothClients(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, runtime.StartContainer(ctx, "c"))
		require.Equal(t, time.Second, s.calls("StartContainer")[0].left)
		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, runtime.StartContainer(long, "c"))
		require.Equal(t, 2*time.Minute, s.calls("StartContainer")[1].left)
	})
}
