package cri

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// newPrompt returns a script with 3,000 containers of a realistic size.
func newPrompt() *script {
	list := &runtimeapi.ListContainersResponse{}
	for i := range 3000 {
		list.Containers = append(list.Containers, benchContainer(i))
	}
	c := list.Containers[0]
	s := newGoodScript()
	s.forgets = true
	s.reply("ListContainers", list)
	s.reply("ContainerStatus", &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: c.Id, Metadata: c.Metadata, State: c.State, CreatedAt: c.CreatedAt, StartedAt: c.CreatedAt,
		Image: c.Image, ImageRef: c.ImageRef, ImageId: c.ImageId, Labels: c.Labels, Annotations: c.Annotations,
		LogPath: "/var/log/pods/default_pod_uid/c/0.log",
		Mounts:  []*runtimeapi.Mount{{ContainerPath: "/etc/hosts", HostPath: "/var/lib/kubelet/pods/uid/etc-hosts"}},
	}})
	return s
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

// benchCall is one call, once through the generated stub and once through the client.
type benchCall struct {
	name   string
	stub   func(context.Context, runtimeapi.RuntimeServiceClient) error
	client func(context.Context, *RuntimeClient) error
}

func benchCalls() []benchCall {
	id := fmt.Sprintf("%064x", 0)
	return []benchCall{
		{"Version", func(ctx context.Context, api runtimeapi.RuntimeServiceClient) error {
			_, err := api.Version(ctx, &runtimeapi.VersionRequest{Version: kubeAPIVersion})
			return err
		}, func(ctx context.Context, c *RuntimeClient) error {
			_, err := c.Version(ctx)
			return err
		}},
		{"ContainerStatus", func(ctx context.Context, api runtimeapi.RuntimeServiceClient) error {
			_, err := api.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
			return err
		}, func(ctx context.Context, c *RuntimeClient) error {
			_, err := c.ContainerStatus(ctx, id, false)
			return err
		}},
		{"StartContainer", func(ctx context.Context, api runtimeapi.RuntimeServiceClient) error {
			_, err := api.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
			return err
		}, func(ctx context.Context, c *RuntimeClient) error { return c.StartContainer(ctx, id) }},
		{"ListContainers", func(ctx context.Context, api runtimeapi.RuntimeServiceClient) error {
			_, err := api.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
			return err
		}, func(ctx context.Context, c *RuntimeClient) error {
			_, err := c.ListContainers(ctx, nil)
			return err
		}},
	}
}

func processorTime(b *testing.B) int64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

// BenchmarkOverGeneratedStub compares RuntimeClient with the generated stub plus deadline, on one
// socket. The CPU time includes server and connection.
func BenchmarkOverGeneratedStub(b *testing.B) {
	socket := filepath.Join(b.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(b, err)
	b.Cleanup(newPrompt().serve(listener))
	client, err := DialRuntime(b.Context(), ClientConfig{Endpoint: socket})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, client.Close()) })
	api := runtimeapi.NewRuntimeServiceClient(client.link.conn)
	for _, c := range benchCalls() {
		for name, call := range map[string]func(context.Context) error{
			"stub": func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, defaultRequestTimeout)
				defer cancel()
				return c.stub(ctx, api)
			},
			"client": func(ctx context.Context) error { return c.client(ctx, client) },
		} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				began := processorTime(b)
				for b.Loop() {
					if err := call(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}
