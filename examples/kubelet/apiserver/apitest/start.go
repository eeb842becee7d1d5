package apitest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"k8s.io/client-go/util/connrotation"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/memnet"
)

type endpoint struct {
	listener  *memnet.Listener
	opened    *connrotation.ConnectionTracker
	down      atomic.Bool
	closing   chan struct{}
	closeOnce sync.Once
}

// Start serves a new Server in memory until the test ends. It works in a synctest bubble.
func Start(t testing.TB) *Server {
	s := newInMemory(t, Kubeconfig("http://server.test", "token: secret"))
	serve(t, s, s.listener, func(srv *http.Server) error { return srv.Serve(s.listener) })
	return s
}

func newInMemory(t testing.TB, kubeconfig string) *Server {
	s := New()
	s.listener, s.opened = memnet.Listen(0), connrotation.NewConnectionTracker()
	s.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(s.Kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func serve(t testing.TB, s *Server, l net.Listener, run func(*http.Server) error) {
	server := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run(server) // the error is always that the server was closed
	}()
	t.Cleanup(func() {
		s.closeOnce.Do(func() { close(s.closing) })
		s.CloseWatches()
		_ = server.Close() // the leak check finds connections that stay open
		_ = l.Close()
		<-ended
	})
}

// Dial connects to a Server that was started with Start or StartSecure.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.down.Load() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	conn, err := s.listener.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	return s.opened.Track(conn), nil
}

// Client returns a client of a Server that was started with Start. It has no rate limit.
func (s *Server) Client(t testing.TB) *apiserver.Client {
	client, err := apiserver.New(apiserver.Config{Kubeconfig: s.Kubeconfig, Dial: s.Dial, UserAgent: "test/1", Limits: apiserver.Limits{QPS: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseConnections)
	return client
}

// Run runs f until the test ends or the returned function is called. An error of f fails the test.
func Run(t testing.TB, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// SetDown makes the server unreachable, closing all its connections, or reachable again. It keeps
// its objects.
func (s *Server) SetDown(down bool) {
	s.down.Store(down)
	if down {
		s.opened.CloseAll()
	}
}

// Kubeconfig returns the text of a kubeconfig for a server. user contains the fields of the user,
// one per line.
func Kubeconfig(server, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts:
- name: test
  context: {cluster: test, user: test}
clusters:
- name: test
  cluster:
    server: %s
users:
- name: test
  user:
    %s
`, server, user)
}
