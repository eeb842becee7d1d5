package streams_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/critest"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/streams"
	"github.com/podwright/podwright/internal/testkit/testcri"
)

// inProcess returns a fake that serves its streaming sessions on a listener.
func inProcess(t *testing.T, sessions net.Listener) (*fake.Runtime, critest.Subject) {
	server, err := streams.NewServer(streams.Config{Listener: sessions})
	require.NoError(t, err)
	rt, err := fake.New(fake.Config{
		Programs: critest.Programs, Exec: critest.Programs, Ports: critest.Ports, Pull: registry(t), Streams: server,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	until(t, func(ctx context.Context) error { return server.Run(ctx, rt) })
	return rt, critest.Subject{
		Runtime: rt, Images: rt, Image: "critest.test/busybox:1.36", OtherImage: "critest.test/other:1",
		Hardened: true, Sessions: &streams.Client{},
	}
}

// TestFakeInMemory runs the suite over gRPC in virtual time.
func TestFakeInMemory(t *testing.T) {
	critest.Run(t, critest.Config{Around: synctest.Test, Start: func(t *testing.T) critest.Subject {
		sessions, listener := fake.Listen(), fake.Listen() // neither sockets nor ports
		rt, subject := inProcess(t, sessions)
		subject.Sessions = &streams.Client{
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return sessions.DialContext(ctx) },
		}
		serve(t, rt, listener)
		return dial(t, cri.ClientConfig{
			Endpoint: "unix:///memory",
			Dial:     func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
		}, subject)
	}})
}

// TestFakeSocket runs the suite over a unix socket in real time.
func TestFakeSocket(t *testing.T) {
	if testing.Short() {
		t.Skip("TestFakeInMemory runs the same cases")
	}
	sessions, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	rt, subject := inProcess(t, sessions)
	socket := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	serve(t, rt, listener)
	subject = dial(t, cri.ClientConfig{Endpoint: socket}, subject)
	critest.Run(t, critest.Config{Parallel: 16, Start: func(*testing.T) critest.Subject { return subject }})
}

func serve(t *testing.T, rt *fake.Runtime, listener net.Listener) {
	until(t, func(ctx context.Context) error { return rt.Serve(ctx, listener) })
}

func until(t *testing.T, run func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	over := make(chan error, 1)
	go func() { over <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-over)
	})
}

// registry has the two images of the suite, the second also by its digest.
func registry(t *testing.T) fake.Puller {
	id, digest := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	pull, err := fake.Registry(
		fake.RemoteImage{Image: fake.Image{Name: "critest.test/busybox:1.36"}},
		fake.RemoteImage{Image: fake.Image{Name: "critest.test/other:1", ID: id, Digest: digest}},
		fake.RemoteImage{Image: fake.Image{Name: "critest.test/other@" + digest, ID: id, Digest: digest}},
	)
	require.NoError(t, err)
	return pull
}

// TestContainerdConforms runs the suite against each runtime.
func TestContainerdConforms(t *testing.T) {
	testcri.Each(t, func(t *testing.T, node testcri.Node) {
		subject := critest.Subject{
			Runtime: node.Runtime(t), Images: node.Images(t),
			Image: node.Busybox, OtherImage: pushCopy(t, node.Busybox), CgroupParent: "/k8s.io",
			Sessions: &streams.Client{},
		}
		critest.Run(t, critest.Config{
			Parallel: 8,
			Start:    func(*testing.T) critest.Subject { return subject },
		})
	})
}

// dial sets the two services of subject to clients of an endpoint.
func dial(t *testing.T, cfg cri.ClientConfig, subject critest.Subject) critest.Subject {
	runtime, err := cri.DialRuntime(t.Context(), cfg)
	require.NoError(t, err)
	images, err := cri.DialImages(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(runtime.Close(), images.Close())) })
	subject.Runtime, subject.Images = runtime, images
	return subject
}
