package streams

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/fields"
)

var (
	_ fake.StreamServer = (*Server)(nil)
	_ Runtime           = (*fake.Runtime)(nil)
)

// Runtime runs the sessions. fake.Runtime implements and documents it.
type Runtime interface {
	// ExecSession runs a command and returns its exit code. It kills the command when ctx ends.
	ExecSession(ctx context.Context, containerID string, command []string, s fake.Session) (exitCode int, err error)
	// AttachSession connects to a running container until the container exits or ctx ends.
	AttachSession(ctx context.Context, containerID string, s fake.Session) error
	// PortForwardSession connects stream to a port of a sandbox and closes it at the end.
	PortForwardSession(ctx context.Context, sandboxID string, port int, stream io.ReadWriteCloser) error
}

// Config configures a Server.
type Config struct {
	// Listener accepts the clients: TCP, a unix socket, or fake.Listen in memory. Run closes it.
	// Required.
	Listener net.Listener
	// BaseURL is the prefix of session URLs, "http://host:port/". Default: the address of a TCP
	// listener; for other listeners "http://localhost/", which requires a Dial in the Client.
	BaseURL *url.URL
	// CreationTimeout bounds the time that an SPDY client takes to open its streams, and the time
	// that a connection without session is idle or does not read a response. Default: 30 s.
	CreationTimeout time.Duration
	// IdleTimeout ends a connection after this time without traffic, also if its client does not
	// read. Default: 4 h, as in containerd.
	IdleTimeout time.Duration
	// MaxConnections bounds the connections. A further connection closes the oldest connection
	// without session, or is closed itself if all have sessions. Default: 1024.
	MaxConnections int
	// Logger receives problems with connections. Nil discards. Failures of sessions are sent to
	// their clients, and k8s.io/cri-streaming writes them to klog.
	Logger *slog.Logger
}

func (c *Config) complete() error {
	f := fields.Of("streams: Config")
	f.Required("Listener", c.Listener)
	fields.Number(f, "CreationTimeout", &c.CreationTimeout, streaming.DefaultConfig.StreamCreationTimeout)
	fields.Number(f, "IdleTimeout", &c.IdleTimeout, streaming.DefaultConfig.StreamIdleTimeout)
	fields.Number(f, "MaxConnections", &c.MaxConnections, 1024)
	fields.Logger(&c.Logger)
	if err := f.Err(); err != nil {
		return err
	}
	if c.BaseURL == nil {
		c.BaseURL = &url.URL{Scheme: "http", Host: "localhost", Path: "/"}
		if address, ok := c.Listener.Addr().(*net.TCPAddr); ok {
			c.BaseURL.Host = address.String()
		}
	}
	return nil
}

// Server is a fake.StreamServer. It returns URLs, each valid for one session within a minute, and
// serves them over SPDY and WebSocket. It is safe for concurrent use.
type Server struct {
	cfg    Config
	urls   streaming.Server
	bridge *bridge
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = fields.AlreadyRun("streams")

// NewServer returns a Server. Clients that connect before Run wait.
func NewServer(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, bridge: newBridge()}
	config := streaming.DefaultConfig
	config.BaseURL = cfg.BaseURL
	config.StreamCreationTimeout, config.StreamIdleTimeout = cfg.CreationTimeout, cfg.IdleTimeout
	var err error
	if s.urls, err = streaming.NewServer(config, s.bridge); err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	return s, nil
}

// Run serves sessions with runtime until ctx ends or the listener fails. It then closes all
// connections, waits for the sessions to end, which kills the commands of exec, and returns. A
// client that has not opened its streams yet may delay it by CreationTimeout. The end of ctx is no
// error. A second Run returns ErrAlreadyRun.
func (s *Server) Run(ctx context.Context, runtime Runtime) error {
	if !s.bridge.begin(runtime) {
		return ErrAlreadyRun
	}
	var serving sync.WaitGroup
	conns := newConnections(s.cfg.Listener, s.cfg.MaxConnections, s.cfg.IdleTimeout)
	server := &http.Server{
		Handler: s.handler(&serving), ConnContext: connContext, ConnState: connState(&serving),
		// These do not apply to sessions, which hijack their connections.
		ReadTimeout: s.cfg.CreationTimeout, WriteTimeout: s.cfg.CreationTimeout, IdleTimeout: s.cfg.CreationTimeout,
		ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(conns) }()
	var err error
	select {
	case <-ctx.Done():
		_ = server.Close()
		<-served
	case err = <-served:
		err = fmt.Errorf("streams: %w", err)
		_ = server.Close()
	}
	s.bridge.end()
	conns.cut()
	serving.Wait()
	s.bridge.sessions.Wait()
	return err
}

// handler serves a session and then closes its connection in any state. A connection without
// session remains with the http.Server (see connState).
func (s *Server) handler(serving *sync.WaitGroup) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if conn := connOf(r.Context()); conn != nil && conn.hijacked() {
				_ = conn.Close()
				serving.Done()
			}
		}()
		s.urls.ServeHTTP(w, r)
	})
}

// GetExec implements fake.StreamServer.
func (s *Server) GetExec(request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if err := s.bridge.stopped(); err != nil {
		return nil, err
	}
	marked := &runtimeapi.ExecRequest{
		ContainerId: mark(request.GetContainerId(), request.GetStdin()), Cmd: request.GetCmd(),
		Tty: request.GetTty(), Stdin: request.GetStdin(), Stdout: request.GetStdout(), Stderr: request.GetStderr(),
	}
	return s.urls.GetExec(marked)
}

// GetAttach implements fake.StreamServer.
func (s *Server) GetAttach(request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if err := s.bridge.stopped(); err != nil {
		return nil, err
	}
	marked := &runtimeapi.AttachRequest{
		ContainerId: mark(request.GetContainerId(), request.GetStdin()),
		Tty:         request.GetTty(), Stdin: request.GetStdin(), Stdout: request.GetStdout(), Stderr: request.GetStderr(),
	}
	return s.urls.GetAttach(marked)
}

// GetPortForward implements fake.StreamServer.
func (s *Server) GetPortForward(request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	if err := s.bridge.stopped(); err != nil {
		return nil, err
	}
	return s.urls.GetPortForward(request)
}

func stoppedError() error { return status.Error(codes.Unavailable, "the stream server has stopped") }
