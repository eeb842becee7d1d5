package cri

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// prompt is a runtime that answers at once, always the same.
type prompt struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	version *runtimeapi.VersionResponse
	status  *runtimeapi.ContainerStatusResponse
	started *runtimeapi.StartContainerResponse
	list    *runtimeapi.ListContainersResponse
}

// newPrompt makes a runtime with 3,000 containers of the size that a kubelet makes.
func newPrompt() *prompt {
	p := &prompt{
		version: goodVersion(), started: &runtimeapi.StartContainerResponse{}, list: &runtimeapi.ListContainersResponse{},
	}
	for i := range 3000 {
		p.list.Containers = append(p.list.Containers, benchContainer(i))
	}
	c := p.list.Containers[0]
	p.status = &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: c.Id, Metadata: c.Metadata, State: c.State, CreatedAt: c.CreatedAt, StartedAt: c.CreatedAt,
		Image: c.Image, ImageRef: c.ImageRef, ImageId: c.ImageId, Labels: c.Labels, Annotations: c.Annotations,
		LogPath: "/var/log/pods/default_pod_uid/c/0.log",
		Mounts:  []*runtimeapi.Mount{{ContainerPath: "/etc/hosts", HostPath: "/var/lib/kubelet/pods/uid/etc-hosts"}},
	}}
	return p
}

func benchContainer(i int) *runtimeapi.Container {
	image := fmt.Sprintf("sha256:%064x", i%20)
	return &runtimeapi.Container{
		Id: fmt.Sprintf("%064x", i), PodSandboxId: fmt.Sprintf("%064x", i/10), Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
		Image: &runtimeapi.ImageSpec{Image: image}, ImageRef: image, ImageId: image,
		State: runtimeapi.ContainerState_CONTAINER_RUNNING, CreatedAt: 1_700_000_000_000_000_000,
		Labels: map[string]string{
			"io.kubernetes.container.name": "c", "io.kubernetes.pod.name": fmt.Sprint("pod-", i/10),
			"io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": fmt.Sprintf("uid-%032x", i/10),
		},
		Annotations: map[string]string{
			"io.kubernetes.container.hash": "8e45cbd0", "io.kubernetes.container.restartCount": "0",
			"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
			"io.kubernetes.container.terminationMessagePolicy": "File",
			"io.kubernetes.pod.terminationGracePeriod":         "30",
		},
	}
}

func (p *prompt) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return p.version, nil
}

func (p *prompt) ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	return p.status, nil
}

func (p *prompt) StartContainer(context.Context, *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	return p.started, nil
}

func (p *prompt) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return p.list, nil
}

// stub is the prompt runtime as a generated client without anything between:
// what is left of a call through it is the work of RuntimeClient alone.
type stub struct {
	runtimeapi.RuntimeServiceClient // for the calls that are not made
	runtime                         *prompt
}

func (s stub) Version(ctx context.Context, r *runtimeapi.VersionRequest, _ ...grpc.CallOption) (*runtimeapi.VersionResponse, error) {
	return s.runtime.Version(ctx, r)
}

func (s stub) ContainerStatus(ctx context.Context, r *runtimeapi.ContainerStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	return s.runtime.ContainerStatus(ctx, r)
}

func (s stub) StartContainer(ctx context.Context, r *runtimeapi.StartContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	return s.runtime.StartContainer(ctx, r)
}

func (s stub) ListContainers(ctx context.Context, r *runtimeapi.ListContainersRequest, _ ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return s.runtime.ListContainers(ctx, r)
}

// benchCall is one call, made by the generated stub and by the client.
type benchCall struct {
	name   string
	each   int // calls in a turn
	stub   func(context.Context, runtimeapi.RuntimeServiceClient) error
	client func(context.Context, *RuntimeClient) error
}

func benchCalls() []benchCall {
	id := fmt.Sprintf("%064x", 0)
	return []benchCall{
		{"Version", 50, func(ctx context.Context, api runtimeapi.RuntimeServiceClient) error {
			_, err := api.Version(ctx, &runtimeapi.VersionRequest{Version: kubeAPIVersion})
			return err
		}, func(ctx context.Context, c *RuntimeClient) error {
			_, err := c.Version(ctx)
			return err
		}},
		{"ContainerStatus", 50, func(ctx context.Context, api runtimeapi.RuntimeServiceClient) error {
			_, err := api.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
			return err
		}, func(ctx context.Context, c *RuntimeClient) error {
			_, err := c.ContainerStatus(ctx, id, false)
			return err
		}},
		{"StartContainer", 50, func(ctx context.Context, api runtimeapi.RuntimeServiceClient) error {
			_, err := api.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
			return err
		}, func(ctx context.Context, c *RuntimeClient) error { return c.StartContainer(ctx, id) }},
		{"ListContainers", 1, func(ctx context.Context, api runtimeapi.RuntimeServiceClient) error {
			_, err := api.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
			return err
		}, func(ctx context.Context, c *RuntimeClient) error {
			_, err := c.ListContainers(ctx, nil)
			return err
		}},
	}
}

// BenchmarkOverGeneratedStub makes the same calls on the same connection through
// the generated stub, without a deadline and with the one that a careful caller
// sets, and through RuntimeClient. They take turns, and what is reported are
// medians over all turns: the processor time of a call (of server and connection
// too) and the ratios of neighbouring turns. A machine that does other work
// disturbs these least; run it with -benchtime 1000x or more.
func BenchmarkOverGeneratedStub(b *testing.B) {
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, newPrompt())
	socket := filepath.Join(b.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(b, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	client, err := DialRuntime(b.Context(), ClientConfig{Endpoint: socket})
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, client.Close())
		server.Stop()
		require.NoError(b, <-served)
	})
	api := runtimeapi.NewRuntimeServiceClient(client.link.conn)
	for _, c := range benchCalls() {
		b.Run(c.name, func(b *testing.B) {
			compare(b, c.each, func() error { return c.stub(b.Context(), api) }, func() error {
				ctx, cancel := context.WithTimeout(b.Context(), DefaultRequestTimeout)
				defer cancel()
				return c.stub(ctx, api)
			}, func() error { return c.client(b.Context(), client) })
		})
	}
}

// compare lets three ways to do the same take turns of some calls each.
func compare(b *testing.B, each int, bare, bounded, client func() error) {
	ways := [...]func() error{bare, bounded, client}
	var took [len(ways)][]float64
	var overBare, overBounded []float64
	for turn := 0; b.Loop(); turn++ {
		var now [len(ways)]float64
		for i := range ways {
			way := (turn + i) % len(ways)
			began := processorTime(b)
			for range each {
				if err := ways[way](); err != nil {
					b.Fatal(err)
				}
			}
			now[way] = float64(processorTime(b)-began) / float64(each)
			took[way] = append(took[way], now[way])
		}
		overBare, overBounded = append(overBare, now[2]/now[0]), append(overBounded, now[2]/now[1])
	}
	b.ReportMetric(0, "ns/op") // of all together: not of interest
	b.ReportMetric(median(took[0]), "bare-cpu-ns")
	b.ReportMetric(median(took[1]), "bounded-cpu-ns")
	b.ReportMetric(median(took[2]), "client-cpu-ns")
	b.ReportMetric(median(overBare), "client/bare")
	b.ReportMetric(median(overBounded), "client/bounded")
}

func median(of []float64) float64 {
	slices.Sort(of)
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

// processorTime is what the process has used, in nanoseconds.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

// BenchmarkClientAlone makes the calls through RuntimeClient with nothing behind
// it. Divided by what a call through the generated stub costs it is the overhead,
// without the noise of a connection.
func BenchmarkClientAlone(b *testing.B) {
	l, err := newLink("runtime", ClientConfig{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, l.close()) })
	api := stub{runtime: newPrompt()}
	client := &RuntimeClient{link: l, api: api}
	ways := []struct {
		name string
		call func(context.Context, benchCall) error
	}{
		{"stub", func(ctx context.Context, c benchCall) error {
			ctx, cancel := context.WithTimeout(ctx, DefaultRequestTimeout)
			defer cancel()
			return c.stub(ctx, api)
		}},
		{"client", func(ctx context.Context, c benchCall) error { return c.client(ctx, client) }},
	}
	for _, c := range benchCalls() {
		for _, way := range ways {
			b.Run(c.name+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				began := processorTime(b)
				for b.Loop() {
					if err := way.call(b.Context(), c); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}
