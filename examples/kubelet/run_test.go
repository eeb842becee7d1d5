package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/logging"
	"github.com/podwright/podwright/examples/kubelet/server"
)

// free returns a port without a listener, below the kernel's range of ephemeral ports.
func free(t *testing.T) string {
	t.Helper()
	for {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
}

// started runs a kubelet with the embedded runtime, which logs to out, until it is stopped or ends
// by itself.
func started(t *testing.T, out io.Writer, args ...string) (cfg *config.Config, ended chan error, stop func()) {
	t.Helper()
	args = append(args, "--container-runtime-endpoint=embedded", "--hostname-override=n", "--root-dir="+filepath.Join(t.TempDir(), "root"), "--healthz-port=0", "--address=127.0.0.1", "--eviction-hard=memory.available<1Mi")
	cfg = settings(t, args...)
	ctx, cancel := context.WithCancel(t.Context())
	log, setVerbosity, err := logging.New(logging.Config{Format: cfg.Kubelet.Logging.Format, Output: out})
	require.NoError(t, err)
	ended = make(chan error, 1)
	go func() {
		ended <- locked(ctx, &cfg.Flags, log, func(ctx context.Context) error { return runNode(ctx, cfg, log, setVerbosity) })
	}()
	return cfg, ended, cancel
}

func soon(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 10*time.Millisecond)
}

// A7: a node without an API server serves its API if authorization is configured. A28: the log is
// more verbose as soon as the verbosity was set through the API.
func TestStandaloneAPI(t *testing.T) {
	port, manifests := free(t), t.TempDir()
	var log lines
	_, ended, stop := started(t, &log, "--anonymous-auth", "--authorization-mode=AlwaysAllow", "--port="+port, "--logging-format=json", "--pod-manifest-path="+manifests)
	defer func() { require.NoError(t, <-ended) }()
	defer stop()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	do := func(method, path, body string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, "https://127.0.0.1:"+port+path, strings.NewReader(body))
		require.NoError(t, err)
		response, err := client.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	soon(t, func() bool { code, _ := do(http.MethodGet, "/healthz", ""); return code == http.StatusOK })
	code, body := do(http.MethodGet, "/configz", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `"mode":"AlwaysAllow"`)
	code, _ = do(http.MethodGet, "/containerLogs/ns/none/c", "")
	require.Equal(t, http.StatusNotFound, code)

	require.NotContains(t, log.String(), `"v":4`)
	code, body = do(http.MethodPut, "/debug/flags/v", "6")
	require.Equal(t, http.StatusOK, code, body)
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostNetwork: true, containers: [{name: c, image: i, command: [sleep, '600']}]}}"
	require.NoError(t, os.WriteFile(filepath.Join(manifests, "p.yaml"), []byte(pod), 0o600))
	soon(t, func() bool { return strings.Contains(log.String(), `"v":4`) })
}

// A kubelet without a credential, whose API server is unreachable, reports its readiness, serves
// its API, and runs static pods.
func TestStartWithoutCredential(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	notified, err := net.ListenPacket("unixgram", socket)
	require.NoError(t, err)
	defer notified.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	dir, port := t.TempDir(), free(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	bootstrap := write("bootstrap", apitest.Kubeconfig("https://127.0.0.1:1", "token: secret"))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "manifests"), 0o700))
	write("manifests/p.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostNetwork: true, containers: [{name: c, image: i, command: [sh, -c, 'touch "+dir+"/ran; sleep 600']}]}}")
	var log lines
	_, ended, stop := started(t, &log, "--bootstrap-kubeconfig="+bootstrap, "--kubeconfig="+filepath.Join(dir, "kubeconfig"), "--cert-dir="+filepath.Join(dir, "pki"), "--rotate-certificates",
		"--anonymous-auth", "--authorization-mode=AlwaysAllow", "--authentication-token-webhook=false", "--port="+port, "--pod-manifest-path="+filepath.Join(dir, "manifests"))
	defer func() { require.NoError(t, <-ended, log.String()) }()
	defer stop()
	got := make([]byte, 100)
	require.NoError(t, notified.SetReadDeadline(time.Now().Add(time.Minute)))
	n, _, err := notified.ReadFrom(got)
	require.NoError(t, err)
	require.Equal(t, "READY=1", string(got[:n]))
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	soon(t, func() bool {
		response, err := client.Get("https://127.0.0.1:" + port + "/healthz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	soon(t, func() bool { return exists(filepath.Join(dir, "ran")) })
	require.NoFileExists(t, filepath.Join(dir, "kubeconfig"))
}

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

// A5, A6: the second kubelet waits for the lock, and the first one ends if it has
// --exit-on-lock-contention.
func TestLockFile(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, 1, realMain([]string{"--exit-on-lock-contention"}, io.Discard, &out))
	require.Contains(t, out.String(), "--lock-file")

	file := filepath.Join(t.TempDir(), "lock")
	first, firstEnded, stopFirst := started(t, t.Output(), "--lock-file="+file, "--exit-on-lock-contention")
	defer stopFirst()
	soon(t, func() bool { return exists(first.Flags.RootDir) })
	second, secondEnded, stopSecond := started(t, t.Output(), "--lock-file="+file)
	require.NoError(t, <-firstEnded, "the first kubelet exits")
	soon(t, func() bool { return exists(second.Flags.RootDir) })

	third, thirdEnded, stopThird := started(t, t.Output(), "--lock-file="+file)
	stopThird()
	require.ErrorContains(t, <-thirdEnded, "--lock-file")
	require.False(t, exists(third.Flags.RootDir), "the third kubelet has waited")
	select {
	case err := <-secondEnded:
		t.Fatalf("the second kubelet exited: %v", err)
	default:
	}
	stopSecond()
	require.NoError(t, <-secondEnded)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A21: only a stuck sync loop stops the watchdog's pings.
func TestOnlyAStuckSyncLoopStopsPings(t *testing.T) {
	require.NoError(t, stuck([]server.Check{{Name: "runtime", Message: "away"}, {Name: "syncloop", OK: true}}))
	require.EqualError(t, stuck([]server.Check{{Name: "syncloop", Message: "for 6m"}}), "syncloop: for 6m")
}
