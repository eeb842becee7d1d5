package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
)

// shortTimeout makes calls to a silent runtime fail soon.
const shortTimeout = "runtimeRequestTimeout: 2s\n"

// wrongEndpoints are sockets without a working runtime, each with the expected error. serve
// returns the path for the link.
var wrongEndpoints = map[string]struct {
	serve func(t *testing.T) string
	want  string
}{
	"missing": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "missing") }, "no such file or directory"},
	"regular file": {func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		return path
	}, "connection refused"},
	"silent":     {serveSilent, "2s"},
	"plain HTTP": {serveHTTP, ""},
}

func listenUnix(t *testing.T) net.Listener {
	dir, err := os.MkdirTemp("", "e") // socket paths are short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	return l
}

// serveSilent accepts connections and sends no data.
func serveSilent(t *testing.T) string {
	l := listenUnix(t)
	var served sync.WaitGroup
	var conns []net.Conn
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		served.Wait()
		for _, conn := range conns {
			_ = conn.Close() // the peer may have closed it
		}
	})
	return l.Addr().String()
}

func serveHTTP(t *testing.T) string {
	l := listenUnix(t)
	srv := &http.Server{Handler: http.NotFoundHandler()}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return l.Addr().String()
}

// serveFake serves a runtime in memory whose containers sleep.
func serveFake(t *testing.T) string {
	rt, err := fake.New(fake.Config{AnyImage: true})
	require.NoError(t, err)
	l := listenUnix(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rt.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, errors.Join(<-done, rt.Close()))
	})
	return l.Addr().String()
}

// link atomically makes path a link to the target.
func link(t testing.TB, target, path string) {
	t.Helper()
	require.NoError(t, os.Symlink(target, path+".new"))
	require.NoError(t, os.Rename(path+".new", path))
}

// testRecovery starts a kubelet with a wrong socket, checks the reported error, and replaces the
// socket by a runtime.
func testRecovery(t *testing.T, k *kubelet, wrong, want, runtime string) {
	t.Helper()
	link(t, wrong, k.socket())
	k.writeManifest(t, "waits.yaml", newPod("waits", testprog("testprog:v1", "run")))
	k.start(t)
	wait(t, 10*time.Second, "healthz reports the endpoint's error", func() error {
		return k.unhealthy("[-]runtime", "unix://"+k.socket(), "Version", want)
	})
	wait(t, 5*time.Second, "the log has one line with the endpoint's error", func() error {
		if lines := k.logLines(t, "level=ERROR", "unix://"+k.socket(), "Version", want); len(lines) != 1 {
			return fmt.Errorf("%d matching lines", len(lines))
		}
		return nil
	})
	wait(t, 5*time.Second, "the pod is Pending without container statuses", func() error {
		p, err := k.pod("waits")
		if err == nil && (p.Status.Phase != v1.PodPending || len(p.Status.ContainerStatuses) > 0) {
			err = errors.New(brief(p))
		}
		return err
	})

	link(t, runtime, k.socket())
	k.running(t, "waits")
	require.NoError(t, k.healthy())
}

func (k *kubelet) socket() string { return k.endpoint[len("unix://"):] }

// C38 and A29: a wrong endpoint is reported as an error within the deadline and does not stop the
// kubelet. Pods start without intervention once a runtime serves the socket. This test needs no
// testbed.
func TestWrongEndpoint(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: pods get cgroups")
	}
	program(t)
	for name, c := range wrongEndpoints {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKubelet(t, options{node: "wrong", config: shortTimeout, endpoint: "unix://" + filepath.Join(t.TempDir(), "r.sock")})
			testRecovery(t, k, c.serve(t), c.want, serveFake(t))
			k.removeManifest(t, "waits.yaml")
			wait(t, 20*time.Second, "the pod is removed", func() error { return emptyFolder(k.root + "/pods") })
		})
	}
}
