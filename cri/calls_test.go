package cri

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type testCall struct {
	name   string
	object string // CallError.Object
	// limit returns the deadline for a request timeout T, 0 for none.
	limit func(T time.Duration) time.Duration
	reply proto.Message
	args  []any
}

func once(T time.Duration) time.Duration  { return T }
func twice(T time.Duration) time.Duration { return 2 * T }
func never(time.Duration) time.Duration   { return 0 }

func plus(own time.Duration) func(time.Duration) time.Duration {
	return func(T time.Duration) time.Duration { return T + own }
}

func atLeast(own time.Duration) func(time.Duration) time.Duration {
	return func(T time.Duration) time.Duration { return max(T, own) }
}

func args(of ...any) []any { return of }

var (
	busybox = &runtimeapi.ImageSpec{Image: "busybox"}
	podA    = &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "a", Namespace: "default"}}
)

// everyCall has a row for each call of both services except the event stream (see events_test.go).
var everyCall = []testCall{
	{"Version", "", once, goodVersion(), nil},
	{"Status", "", once, goodStatus(), args(true)},
	{"RuntimeConfig", "", once, &runtimeapi.RuntimeConfigResponse{}, nil},
	{"UpdateRuntimeConfig", "", once, &runtimeapi.UpdateRuntimeConfigResponse{}, args(&runtimeapi.RuntimeConfig{})},
	{"RunPodSandbox", "default/a", twice, &runtimeapi.RunPodSandboxResponse{PodSandboxId: "s"}, args(podA, "runc")},
	{"StopPodSandbox", "s", once, &runtimeapi.StopPodSandboxResponse{}, args("s")},
	{"RemovePodSandbox", "s", once, &runtimeapi.RemovePodSandboxResponse{}, args("s")},
	{"PodSandboxStatus", "s", once, goodSandbox(), args("s", false)},
	{"ListPodSandbox", "", once, &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{}}}, args(nil)},
	{"UpdatePodSandboxResources", "s", once, &runtimeapi.UpdatePodSandboxResourcesResponse{}, args(&runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: "s"})},
	{"CreateContainer", "s", once, &runtimeapi.CreateContainerResponse{ContainerId: "c"}, args("s", nil, podA)},
	{"StartContainer", "c", once, &runtimeapi.StartContainerResponse{}, args("c")},
	{"StopContainer", "c", plus(30 * time.Second), &runtimeapi.StopContainerResponse{}, args("c", 30*time.Second)},
	{"RemoveContainer", "c", once, &runtimeapi.RemoveContainerResponse{}, args("c")},
	{"ContainerStatus", "c", once, goodContainer(), args("c", false)},
	{"ListContainers", "", once, &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{}}}, args(nil)},
	{"UpdateContainerResources", "c", once, &runtimeapi.UpdateContainerResourcesResponse{}, args(&runtimeapi.UpdateContainerResourcesRequest{ContainerId: "c"})},
	{"ReopenContainerLog", "c", once, &runtimeapi.ReopenContainerLogResponse{}, args("c")},
	{"CheckpointContainer", "c", atLeast(5 * time.Minute), &runtimeapi.CheckpointContainerResponse{}, args(&runtimeapi.CheckpointContainerRequest{ContainerId: "c", Timeout: 300})},
	{"ExecSync", "c", plus(7 * time.Second), &runtimeapi.ExecSyncResponse{}, args("c", []string{"true"}, 7*time.Second)},
	{"Exec", "c", once, &runtimeapi.ExecResponse{Url: "u"}, args(&runtimeapi.ExecRequest{ContainerId: "c"})},
	{"Attach", "c", once, &runtimeapi.AttachResponse{Url: "u"}, args(&runtimeapi.AttachRequest{ContainerId: "c"})},
	{"PortForward", "s", once, &runtimeapi.PortForwardResponse{Url: "u"}, args(&runtimeapi.PortForwardRequest{PodSandboxId: "s"})},
	{"ContainerStats", "c", once, &runtimeapi.ContainerStatsResponse{Stats: &runtimeapi.ContainerStats{}}, args("c")},
	{"ListContainerStats", "", once, &runtimeapi.ListContainerStatsResponse{Stats: []*runtimeapi.ContainerStats{{}}}, args(nil)},
	{"PodSandboxStats", "s", once, &runtimeapi.PodSandboxStatsResponse{Stats: &runtimeapi.PodSandboxStats{}}, args("s")},
	{"ListPodSandboxStats", "", once, &runtimeapi.ListPodSandboxStatsResponse{Stats: []*runtimeapi.PodSandboxStats{{}}}, args(nil)},
	{"ListMetricDescriptors", "", once, &runtimeapi.ListMetricDescriptorsResponse{}, nil},
	{"ListPodSandboxMetrics", "", once, &runtimeapi.ListPodSandboxMetricsResponse{PodMetrics: []*runtimeapi.PodSandboxMetrics{{}}}, nil},
	{"ListImages", "", once, &runtimeapi.ListImagesResponse{Images: []*runtimeapi.Image{{}}}, args(nil)},
	{"ImageStatus", "busybox", once, &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "i", Size: 1}}, args(busybox, false)},
	{"PullImage", "busybox", never, &runtimeapi.PullImageResponse{ImageRef: "sha256:1"}, args(busybox, nil, nil)},
	{"RemoveImage", "busybox", once, &runtimeapi.RemoveImageResponse{}, args(busybox)},
	{"ImageFsInfo", "", once, &runtimeapi.ImageFsInfoResponse{}, nil},
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

// clients are the two clients of one runtime.
type clients struct {
	runtime *RuntimeClient
	images  *ImageClient
}

// do makes the call and returns its results and its error.
func (n clients) do(ctx context.Context, c testCall) ([]reflect.Value, error) {
	method := reflect.ValueOf(n.runtime).MethodByName(c.name)
	if !method.IsValid() {
		method = reflect.ValueOf(n.images).MethodByName(c.name)
	}
	in := []reflect.Value{reflect.ValueOf(ctx)}
	for i, arg := range c.args {
		value := reflect.ValueOf(arg)
		if arg == nil {
			value = reflect.Zero(method.Type().In(i + 1))
		}
		in = append(in, value)
	}
	out := method.Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	return out[:len(out)-1], err
}

func (n clients) make(ctx context.Context, c testCall) error {
	_, err := n.do(ctx, c)
	return err
}

func dialBoth(t *testing.T, cfg ClientConfig) clients {
	return clients{dialRuntime(t, cfg), dialImages(t, cfg)}
}

func newGoodScript() *script {
	s := newScript()
	for _, c := range everyCall {
		s.reply(c.name, c.reply)
	}
	return s
}

// bothClients returns a served script with a good reply for each call, and its clients.
func bothClients(t *testing.T) (*script, clients) {
	s := newGoodScript()
	return s, dialBoth(t, s.inMemory(t))
}

func TestEveryCallIsTested(t *testing.T) {
	s, operations := newGoodScript(), map[string]bool{}
	cfg := s.inMemory(t)
	cfg.OnCall = func(c CallInfo) { operations[c.Operation] = true }
	n, tested := dialBoth(t, cfg), map[string]bool{"GetContainerEvents": true}
	clear(operations)
	for _, c := range everyCall {
		require.NoError(t, n.make(t.Context(), c), c.name)
		tested[c.name] = true
		require.Len(t, operations, len(tested)-1, "%s has the operation of another call", c.name)
	}
	for _, service := range []reflect.Type{reflect.TypeFor[RuntimeService](), reflect.TypeFor[ImageService]()} {
		for i := range service.NumMethod() {
			require.True(t, tested[service.Method(i).Name], "%s has no row in everyCall", service.Method(i).Name)
		}
	}
}

// A hanging call fails exactly at its deadline. The error contains endpoint, call and deadline,
// and the runtime receives the same deadline.
func TestDeadlines(t *testing.T) {
	for timeout, T := range map[time.Duration]time.Duration{0: 2 * time.Minute, 3 * time.Second: 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newGoodScript()
			cfg := s.inMemory(t)
			cfg.RequestTimeout = timeout
			n := dialBoth(t, cfg)
			for _, c := range everyCall {
				limit := c.limit(T)
				require.NoError(t, n.make(t.Context(), c), c.name)
				last := s.last(c.name)
				require.Equal(t, limit != 0, last.bounded, "%s has a deadline", c.name)
				require.Equal(t, limit, last.left, "%s: deadline", c.name)
				if limit == 0 {
					continue
				}
				s.hanging(c.name, true)
				begin := time.Now()
				err := n.make(t.Context(), c)
				require.Equal(t, limit, time.Since(begin), c.name)
				require.Equal(t, limit, requireCallError(t, err, c.name, c.object).Timeout)
				require.ErrorIs(t, err, context.DeadlineExceeded, c.name)
				require.NotErrorIs(t, err, context.Canceled, c.name)
				require.ErrorContains(t, err, "no reply within "+limit.String(), c.name)

				s.hanging(c.name, false)
				require.NoError(t, n.make(t.Context(), c), "%s after it hung", c.name)
			}
		})
	}
}

// A runtime that ignores deadlines delays neither the caller nor other calls.
func TestRuntimeThatIgnoresDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newGoodScript()
		s.options = append(s.options, grpc.ChainUnaryInterceptor(
			func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				if _, ok := request.(*runtimeapi.StopContainerRequest); ok {
					<-release
				}
				return handler(ctx, request)
			}))
		client := dialRuntime(t, s.inMemory(t))
		for range 3 {
			begin := time.Now()
			require.ErrorIs(t, client.StopContainer(t.Context(), "c", time.Minute), context.DeadlineExceeded)
			require.Equal(t, 3*time.Minute, time.Since(begin))
			require.NoError(t, client.StartContainer(t.Context(), "c"))
		}
		close(release)
		synctest.Wait()
		require.NoError(t, client.StopContainer(t.Context(), "c", time.Minute))
	})
}

func TestArgumentsInSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		for _, c := range []struct {
			grace    time.Duration
			seconds  int64
			deadline time.Duration
		}{
			{0, 0, 2 * time.Minute},
			{-time.Second, 0, 2 * time.Minute},
			{time.Nanosecond, 1, 2*time.Minute + time.Second},
			{2500 * time.Millisecond, 3, 2*time.Minute + 3*time.Second},
			{time.Hour, 3600, 2*time.Minute + time.Hour},
			{1<<63 - 1, int64(longest / time.Second), 2*time.Minute + longest},
		} {
			require.NoError(t, n.runtime.StopContainer(t.Context(), "c", c.grace))
			last := s.last("StopContainer")
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
			_, _, err := n.runtime.ExecSync(t.Context(), "c", nil, c.timeout)
			require.NoError(t, err)
			last := s.last("ExecSync")
			require.Equal(t, c.seconds, last.request.(*runtimeapi.ExecSyncRequest).Timeout, "timeout %v", c.timeout)
			require.Equal(t, c.deadline, last.left, "timeout %v", c.timeout)
		}
		for seconds, deadline := range map[int64]time.Duration{-1: 2 * time.Minute, 0: 2 * time.Minute, 1: 2 * time.Minute, 3600: time.Hour} {
			require.NoError(t, n.runtime.CheckpointContainer(t.Context(), &runtimeapi.CheckpointContainerRequest{Timeout: seconds}))
			require.Equal(t, deadline, s.last("CheckpointContainer").left, "timeout %v s", seconds)
		}
	})
}
