package critest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/memnet"
)

// directSessions is both ends of a fake's sessions, without a protocol between them. Exec and
// Attach of the client have the defect of the runtime.
type directSessions struct {
	runtime *fake.Runtime
	work    *spoiled

	mu       sync.Mutex
	requests map[string]any // by URL; each is good for one session
}

var (
	_ fake.StreamServer = (*directSessions)(nil)
	_ SessionClient     = (*directSessions)(nil)
)

// reportedError is an error that the runtime reports in a session.
type reportedError struct{ error }

func (reportedError) HTTPStatus() int { return http.StatusInternalServerError }

// mint returns a new URL for a request.
func (d *directSessions) mint(request any) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	url := fmt.Sprintf("direct:%d", len(d.requests))
	d.requests[url] = request
	return url
}

// redeem returns the request of a URL, once.
func redeem[T any](d *directSessions, url string) (request T, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	request, ok := d.requests[url].(T)
	if !ok {
		return request, reportedError{errors.New("there is no such session")}
	}
	d.requests[url] = nil
	return request, nil
}

func checkStreams(stdin, stdout, stderr, tty bool) error {
	if !stdin && !stdout && !stderr || tty && stderr {
		return status.Error(codes.InvalidArgument, "no stream, or a terminal's stderr")
	}
	return nil
}

func (d *directSessions) GetExec(r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return &runtimeapi.ExecResponse{Url: d.mint(r)}, checkStreams(r.Stdin, r.Stdout, r.Stderr, r.Tty)
}

func (d *directSessions) GetAttach(r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return &runtimeapi.AttachResponse{Url: d.mint(r)}, checkStreams(r.Stdin, r.Stdout, r.Stderr, r.Tty)
}

func (d *directSessions) GetPortForward(r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return &runtimeapi.PortForwardResponse{Url: d.mint(r)}, nil
}

func (d *directSessions) Exec(ctx context.Context, url string, s fake.Session) (int, error) {
	return d.spoil(ctx, url, func(url string) (int, error) {
		request, err := redeem[*runtimeapi.ExecRequest](d, url)
		if err != nil {
			return 0, err
		}
		code, err := d.runtime.ExecSession(ctx, request.ContainerId, request.Cmd, s)
		return code, reported(ctx, err)
	})
}

func (d *directSessions) Attach(ctx context.Context, url string, s fake.Session) error {
	_, err := d.spoil(ctx, url, func(url string) (int, error) {
		request, err := redeem[*runtimeapi.AttachRequest](d, url)
		if err != nil {
			return 0, err
		}
		return 0, reported(ctx, d.runtime.AttachSession(ctx, request.ContainerId, s))
	})
	return err
}

func (d *directSessions) spoil(ctx context.Context, url string, run func(url string) (int, error)) (int, error) {
	if d.work.session == nil {
		return run(url)
	}
	return d.work.session(ctx, url, run)
}

func reported(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return reportedError{err}
}

func (d *directSessions) PortForward(ctx context.Context, url string, port int) (io.ReadWriteCloser, error) {
	request, err := redeem[*runtimeapi.PortForwardRequest](d, url)
	if err != nil {
		return nil, err
	}
	listener := memnet.Listen(1 << 20)
	defer listener.Close()
	conn := &directConn{over: make(chan struct{})}
	go func() {
		defer close(conn.over)
		far, err := listener.Accept()
		if err == nil {
			err = d.runtime.PortForwardSession(ctx, request.PodSandboxId, port, far)
		}
		conn.err = err
	}()
	conn.Conn, err = listener.DialContext(ctx)
	return conn, err
}

// directConn is a connection of a port-forward session.
type directConn struct {
	net.Conn
	over chan struct{} // closed when err is set
	err  error
}

// Read returns the runtime's error at the end.
func (c *directConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil {
		return n, nil
	}
	if <-c.over; c.err != nil {
		err = reportedError{c.err}
	}
	return n, err
}

// Without a session client, cases that need one are skipped.
func TestWithoutSessionClient(t *testing.T) {
	c := caseNamed(t, "Streaming/exec: a URL is good for one session")
	r := record(t, c, defect{subject: func(s *Subject) { s.Sessions = nil }})
	require.True(t, r.skipped)
	require.Contains(t, r.log.String(), "no session client")
}
