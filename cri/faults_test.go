package cri_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/script"
	"github.com/podwright/podwright/internal/memnet"
)

// endpoint is where the clients of these tests believe the runtime to be.
const endpoint = "/run/faulty.sock"

// nodeConfig says what a test wants.
type nodeConfig struct {
	fake   fake.Config         // AnyImage is set
	script string              // what is to go wrong
	client cri.ClientConfig    // Endpoint and Dial are set
	server []grpc.ServerOption // beside those of the fake
}

// node is a runtime in memory that a script plays with, served over gRPC in
// memory, and both clients. It has one pod with a running container.
type node struct {
	fake    *fake.Runtime
	player  *script.Player
	cfg     cri.ClientConfig
	options []grpc.ServerOption
	runtime *cri.RuntimeClient
	images  *cri.ImageClient

	pod       *runtimeapi.PodSandboxConfig
	sandbox   string
	container string

	mu       sync.Mutex
	listener *memnet.Listener // nil: nobody listens
	stop     func()           // ends the server, with all its connections
	seen     []script.Call    // by the runtime, once they have ended
}

// newNode serves a runtime until the end of the test.
func newNode(t *testing.T, cfg nodeConfig) *node {
	n := newServer(t, cfg)
	require.NoError(t, n.connect(t))
	return n
}

// connect dials with both clients.
func (n *node) connect(t *testing.T) error {
	runtime, err := cri.DialRuntime(t.Context(), n.cfg)
	if err != nil {
		return err
	}
	images, err := cri.DialImages(t.Context(), n.cfg)
	if err != nil {
		return errors.Join(err, runtime.Close())
	}
	n.runtime, n.images = runtime, images
	t.Cleanup(func() { require.NoError(t, errors.Join(runtime.Close(), images.Close())) })
	return nil
}

// newServer is a node without clients.
func newServer(t *testing.T, cfg nodeConfig) *node {
	cfg.fake.AnyImage = true
	rt, err := fake.New(cfg.fake)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	n := &node{fake: rt, options: append(rt.ServerOptions(), cfg.server...), cfg: cfg.client}
	n.addPod(t)
	parsed, err := script.Parse(cfg.script)
	require.NoError(t, err)
	n.player, err = script.New(script.Config{
		Script: parsed, Runtime: rt, Restart: n.restart,
		Observe: func(c script.Call) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.seen = append(n.seen, c)
		},
	})
	require.NoError(t, err)
	n.cfg.Endpoint = endpoint
	n.cfg.Dial = n.dial
	n.serve()
	t.Cleanup(func() { n.stop() })
	return n
}

// addPod runs a pod in the fake itself, where no script interferes.
func (n *node) addPod(t *testing.T) {
	var err error
	n.pod = podConfig("web")
	n.sandbox, err = n.fake.RunPodSandbox(t.Context(), n.pod, "")
	require.NoError(t, err)
	n.container, err = n.fake.CreateContainer(t.Context(), n.sandbox, containerConfig("app"), n.pod)
	require.NoError(t, err)
	require.NoError(t, n.fake.StartContainer(t.Context(), n.container))
}

func podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		Labels:   map[string]string{"app": name},
	}
}

func containerConfig(name string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: "busybox:1.36"},
	}
}

// serve serves the player on a fresh listener, until stop.
func (n *node) serve() {
	server := grpc.NewServer(n.options...)
	fake.Register(server, n.player, n.player)
	listener := memnet.Listen(1 << 16)
	n.listen(listener)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	n.stop = func() {
		n.listen(nil)
		server.Stop()
		serving.Wait()
	}
}

func (n *node) listen(listener *memnet.Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener = listener
}

// errNobodyListens is why a connection is refused.
var errNobodyListens = errors.New("connection refused")

func (n *node) dial(ctx context.Context, _ string) (net.Conn, error) {
	n.mu.Lock()
	listener := n.listener
	n.mu.Unlock()
	if listener == nil {
		return nil, errNobodyListens
	}
	return listener.DialContext(ctx)
}

// restart is what the steps "restart" and "restart losing state" do.
func (n *node) restart(ctx context.Context, keepState bool) error {
	n.fake.Stop()
	loss := fake.LoseNothing
	if !keepState {
		loss = fake.LoseAll
	}
	return n.fake.Start(context.WithoutCancel(ctx), fake.StartOptions{Loss: loss})
}

// calls are the calls of one name that the runtime has ended, in that order.
func (n *node) calls(name string) []script.Call {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.seen), func(c script.Call) bool { return c.Name != name })
}

// requireHealthy checks that both clients still work.
func (n *node) requireHealthy(t *testing.T) {
	t.Helper()
	_, err := n.runtime.ListContainers(t.Context(), nil)
	require.NoError(t, err)
	_, err = n.images.ListImages(t.Context(), nil)
	require.NoError(t, err)
}

// requireCallFailed checks that err is of the call and names it, its object and
// the endpoint.
func requireCallFailed(t *testing.T, err error, call, object string) *cri.CallError {
	t.Helper()
	var e *cri.CallError
	require.ErrorAs(t, err, &e, call)
	require.Equal(t, call, e.Call)
	require.Equal(t, object, e.Object, call)
	named := call
	if object != "" {
		named += " " + object
	}
	require.Contains(t, err.Error(), " unix://"+endpoint+": "+named+": ")
	return e
}

// after calls fn when d has passed, unless the test ends before.
func after(t *testing.T, d time.Duration, fn func()) {
	timer := time.AfterFunc(d, fn)
	t.Cleanup(func() { timer.Stop() })
}
