package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/logging"
	"github.com/podwright/podwright/examples/kubelet/server"
)

// free is a port that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// started runs a kubelet of the embedded runtime until the test ends, or it ends by itself.
func started(t *testing.T, args ...string) (cfg *config.Config, ended chan error, stop func()) {
	t.Helper()
	return startedWith(t, t.Output(), args...)
}

// startedWith is started, with a place for the log.
func startedWith(t *testing.T, out io.Writer, args ...string) (cfg *config.Config, ended chan error, stop func()) {
	t.Helper()
	args = append(args, "--container-runtime-endpoint=embedded", "--hostname-override=n", "--root-dir="+filepath.Join(t.TempDir(), "root"), "--healthz-port=0", "--address=127.0.0.1", "--eviction-hard=memory.available<1Mi")
	cfg, err := config.FromArgs(args, io.Discard)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	log, setVerbosity, err := logging.New(logging.Config{Format: cfg.Kubelet.Logging.Format, Output: out})
	require.NoError(t, err)
	ended = make(chan error, 1)
	go func() {
		ended <- locked(ctx, &cfg.Flags, log, func(ctx context.Context) error { return runNode(ctx, cfg, log, setVerbosity) })
	}()
	return cfg, ended, cancel
}

// A7: a node without an API server serves its API if somebody says to whom.
func TestStandaloneAPI(t *testing.T) {
	port := free(t)
	_, ended, stop := started(t, "--anonymous-auth", "--authorization-mode=AlwaysAllow", "--port="+port)
	defer func() { require.NoError(t, <-ended) }()
	defer stop()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	get := func(path string) (int, string) {
		response, err := client.Get("https://127.0.0.1:" + port + path)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	require.Eventually(t, func() bool { code, _ := get("/healthz"); return code == http.StatusOK }, time.Minute, 20*time.Millisecond)
	code, body := get("/configz")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `"mode":"AlwaysAllow"`)
	code, _ = get("/containerLogs/ns/none/c")
	require.Equal(t, http.StatusNotFound, code)
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A28: the log says more from the moment on that the API is told so.
func TestVerbosityByAPI(t *testing.T) {
	port := free(t)
	var log lines
	manifests := t.TempDir()
	_, ended, stop := startedWith(t, &log, "--anonymous-auth", "--authorization-mode=AlwaysAllow", "--port="+port, "--logging-format=json", "--pod-manifest-path="+manifests)
	defer func() { require.NoError(t, <-ended) }()
	defer stop()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	put := func(v string) bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://127.0.0.1:"+port+"/debug/flags/v", strings.NewReader(v))
		require.NoError(t, err)
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	require.Eventually(t, func() bool { return put("0") }, time.Minute, 20*time.Millisecond)
	require.NotContains(t, log.String(), `"v":4`)
	require.True(t, put("6"))
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostNetwork: true, containers: [{name: c, image: i, command: [sleep, '600']}]}}"
	require.NoError(t, os.WriteFile(filepath.Join(manifests, "p.yaml"), []byte(pod), 0o600))
	require.Eventually(t, func() bool { return strings.Contains(log.String(), `"v":4`) }, time.Minute, 20*time.Millisecond)
}

// A23: a port of the API that is taken ends the kubelet before it has done anything.
func TestTakenAPIPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	cfg, ended, stop := started(t, "--anonymous-auth", "--authorization-mode=AlwaysAllow", "--port="+port)
	defer stop()
	require.ErrorContains(t, <-ended, "--port")
	require.NoDirExists(t, cfg.Flags.RootDir)
}

// A5, A6: whoever comes second waits, and the first one makes room if it is to.
func TestLockFile(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, 1, realMain([]string{"--exit-on-lock-contention"}, &out))
	require.Contains(t, out.String(), "--lock-file")

	file := filepath.Join(t.TempDir(), "lock")
	first, firstEnded, stopFirst := started(t, "--lock-file="+file, "--exit-on-lock-contention")
	defer stopFirst()
	require.Eventually(t, func() bool { return exists(first.Flags.RootDir) }, time.Minute, 10*time.Millisecond)
	second, secondEnded, stopSecond := started(t, "--lock-file="+file)
	require.NoError(t, <-firstEnded, "the first one makes room")
	require.Eventually(t, func() bool { return exists(second.Flags.RootDir) }, time.Minute, 10*time.Millisecond)

	third, thirdEnded, stopThird := started(t, "--lock-file="+file)
	stopThird()
	require.ErrorContains(t, <-thirdEnded, "--lock-file")
	require.False(t, exists(third.Flags.RootDir), "the third one has waited")
	select {
	case err := <-secondEnded:
		t.Fatalf("the second one was not to make room: %v", err)
	default:
	}
	stopSecond()
	require.NoError(t, <-secondEnded)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A21: only a loop that is stuck withholds the watchdog's pings.
func TestStuck(t *testing.T) {
	require.NoError(t, stuck([]server.Check{{Name: "runtime", Message: "away"}, {Name: "syncloop", OK: true}}))
	require.EqualError(t, stuck([]server.Check{{Name: "syncloop", Message: "for 6m"}}), "syncloop: for 6m")
}
