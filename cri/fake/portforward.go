package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// forwardGrace is the time that one direction of a forwarded connection stays open after the end of
// the opposite one, as in containerd.
const forwardGrace = time.Second

// PortForward prepares a session with ports of a ready sandbox and returns its URL. It does not
// check ports. Only a WebSocket client is limited to the ports of the request. Without
// Config.Streams it is Unimplemented.
func (rt *Runtime) PortForward(ctx context.Context, request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	if err := rt.enter(ctx, "PortForward", request); err != nil {
		return nil, err
	}
	if rt.cfg.Streams == nil {
		return nil, unimplemented("PortForward")
	}
	id := request.GetPodSandboxId()
	switch b := rt.sandbox(id); {
	case b == nil:
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox %q: not found", id)
	case !rt.sandboxReady(b):
		return nil, status.Error(codes.Unknown, "sandbox container is not running")
	}
	return rt.cfg.Streams.GetPortForward(request)
}

func (rt *Runtime) sandboxReady(b *sandbox) bool {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	return b.ready
}

// PortForwardSession connects stream to a port of a sandbox through Config.Ports. A StreamServer
// calls it.
//
// It returns nil when either side has ended; the opposite side is closed after one second. The end
// of the client's input is not passed on to the port. It returns an error if the connection is
// refused, the sandbox or the runtime stops, or ctx ends. It closes stream; then a Read or Write of
// stream must return.
func (rt *Runtime) PortForwardSession(ctx context.Context, sandboxID string, port int, stream io.ReadWriteCloser) error {
	defer stream.Close()
	bounded, end, err := rt.beginForward(ctx, sandboxID)
	if err != nil {
		return err
	}
	defer end(nil)
	conn, err := rt.dialPort(bounded.Context, bounded.pod, port)
	if err != nil {
		return fmt.Errorf("failed to connect to localhost:%d inside namespace %q: %w", port, sandboxID, err)
	}
	stop := context.AfterFunc(bounded, func() {
		_ = conn.Close()
		_ = stream.Close()
	})
	defer stop()
	exchange(conn, stream)
	if bounded.Err() != nil {
		return context.Cause(bounded)
	}
	return nil
}

// dialPort calls Config.Ports. A panic becomes an error.
func (rt *Runtime) dialPort(ctx context.Context, pod PodIdentity, port int) (conn net.Conn, err error) {
	if rt.cfg.Ports == nil {
		return nil, syscall.ECONNREFUSED
	}
	err = rt.hook("Config.Ports", func() (err error) {
		conn, err = rt.cfg.Ports(ctx, pod, port)
		return err
	})
	if err == nil && conn == nil {
		err = syscall.ECONNREFUSED
	}
	return conn, err
}

type forward struct {
	context.Context
	pod PodIdentity
}

var errSandboxStopped = errors.New("the sandbox has stopped")

// beginForward binds a session to its sandbox and to the runtime's life.
func (rt *Runtime) beginForward(ctx context.Context, sandboxID string) (*forward, context.CancelCauseFunc, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	b := rt.store.sandboxes[sandboxID]
	switch {
	case rt.unavailable() != nil:
		return nil, nil, rt.unavailable()
	case b == nil:
		return nil, nil, noSandbox(sandboxID)
	case !b.ready:
		return nil, nil, status.Errorf(codes.Unknown, "network namespace for sandbox %q is closed", sandboxID)
	}
	l := rt.life
	bounded, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	if b.forwards == nil {
		b.forwards = map[context.Context]context.CancelCauseFunc{}
	}
	b.forwards[bounded] = cancel
	return &forward{Context: bounded, pod: b.identity()}, func(cause error) {
		stop()
		cancel(cause)
		rt.mu.Lock()
		defer rt.mu.Unlock()
		delete(b.forwards, bounded)
	}, nil
}

// cutForwards ends the port-forward sessions of a sandbox. The caller holds rt.mu.
func (b *sandbox) cutForwards() {
	for _, cancel := range b.forwards {
		cancel(errSandboxStopped)
	}
}

func (b *sandbox) identity() PodIdentity {
	pod := PodIdentity{
		SandboxID: b.id, Name: b.name.name, Namespace: b.name.namespace, UID: b.name.uid, IPs: slices.Clone(b.ips),
	}
	if !b.hostNet {
		pod.Hostname = b.config.GetHostname()
	}
	return pod
}

// exchange copies both ways until both directions have ended.
func exchange(conn net.Conn, stream io.ReadWriteCloser) {
	ended := make(chan struct{}, 2)
	pipe := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from)
		ended <- struct{}{}
	}
	go pipe(conn, stream)
	go pipe(stream, conn)
	<-ended
	grace := time.NewTimer(forwardGrace)
	defer grace.Stop()
	left := true
	select {
	case <-ended:
		left = false
	case <-grace.C:
	}
	_ = conn.Close()
	_ = stream.Close()
	if left {
		<-ended
	}
}
