package controlplane

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serveControl serves a control endpoint that records its requests.
func serveControl(t *testing.T) (socket string, received <-chan string) {
	socket = filepath.Join(t.TempDir(), "ctl.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	requests := make(chan string, 10)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Method + " " + r.URL.String()
		answer := map[string]string{
			"/":                 `{"URL": "https://127.0.0.1:1", "CA": "/ca.crt", "CAKey": "/ca.key", "Kubeconfig": "/admin"}`,
			"/kubeconfig":       "a kubeconfig",
			"/programs/kubectl": "/cache/kubectl",
		}[r.URL.Path]
		_, _ = w.Write([]byte(answer))
	})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return socket, requests
}

func TestHandle(t *testing.T) {
	socket, requests := serveControl(t)
	h := at(t, socket)
	require.Equal(t, "GET /", <-requests)
	require.Equal(t, "https://127.0.0.1:1", h.URL)
	require.Equal(t, "/ca.crt", h.CA)
	require.Equal(t, "/ca.key", h.CAKey)
	require.Equal(t, "/admin", h.Kubeconfig)

	text, err := os.ReadFile(h.NodeKubeconfig(t, "n1", time.Minute))
	require.NoError(t, err)
	require.Equal(t, "a kubeconfig", string(text))
	require.Equal(t, "GET /kubeconfig?group=system%3Anodes&server=https%3A%2F%2F127.0.0.1%3A1&user=system%3Anode%3An1&valid=1m0s", <-requests)
	h.URL = "https://proxy"
	h.UserKubeconfig(t, "me", "", 0)
	require.Equal(t, "GET /kubeconfig?group=&server=https%3A%2F%2Fproxy&user=me", <-requests)
	require.Equal(t, "/cache/kubectl", h.Program(t, "kubectl"))
	require.Equal(t, "GET /programs/kubectl", <-requests)
}

// A component that a test stopped runs again after the test.
func TestDisturbedComponentIsStarted(t *testing.T) {
	socket, requests := serveControl(t)
	h := at(t, socket)
	t.Run("inner", func(t *testing.T) {
		h.APIServer.Kill(t)
		h.APIServer.Start(t)
		h.Scheduler.Pause(t)
		h.Scheduler.Resume(t)
	})
	for _, want := range []string{
		"GET /", "POST /kube-apiserver/kill", "POST /kube-apiserver/start", "POST /kube-scheduler/pause", "POST /kube-scheduler/resume",
		"POST /kube-scheduler/start", "POST /kube-apiserver/start",
	} {
		require.Equal(t, want, <-requests)
	}
	require.Empty(t, requests)
}

// TestTestbed uses each method on the testbed's own control plane.
func TestTestbed(t *testing.T) {
	h := Of(t)
	require.Equal(t, h, Of(t))
	require.Equal(t, h.Kubeconfig, os.Getenv("KUBECONFIG"))
	require.FileExists(t, h.CA)
	require.FileExists(t, h.CAKey)
	_, err := tls.LoadX509KeyPair(h.Certificate, h.Key)
	require.NoError(t, err)
	require.FileExists(t, h.NodeKubeconfig(t, "n1", 0))
	require.FileExists(t, h.Program(t, "kubectl"))
	listens := func() bool {
		conn, err := net.Dial("tcp", h.URL[len("https://"):])
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	require.True(t, listens())
	h.APIServer.Stop(t)
	require.False(t, listens())
	h.APIServer.Start(t)
	require.True(t, listens())
	require.Len(t, tb.Runtimes(t), 2)
}
