package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri/embedded"
)

func TestMain(m *testing.M) {
	if embedded.RunSupervisor() {
		return
	}
	goleak.VerifyTestMain(m)
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+text), 0o600))
	return file
}

// Help and version are on standard output, where kubeadm reads the version; errors are on standard
// error, one line each.
func TestUsage(t *testing.T) {
	file := configFile(t, "runOnce: true\ncpuManagerPolicy: static\nmaxPodz: 7\n")
	for _, tc := range []struct {
		arg  string
		code int
		want []string
	}{
		{"--help", 0, []string{"-pod-manifest-path"}},
		{"--version", 0, []string{"Kubernetes v1.36.3+podwright." + podwright.Version + "\n"}},
		{"--read-only-port=x", 1, []string{"read-only-port"}},
		{"manifests", 1, []string{"manifests"}},
		{"--config=" + file, 1, []string{"kubelet: warning: " + file + ":5: maxPodz: unknown field", "runOnce (--runonce): true is not supported", "cpuManagerPolicy (--cpu-manager-policy): \"static\" is not supported"}},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, tc.code, realMain([]string{tc.arg}, &stdout, &stderr), tc.arg)
		out, other := &stdout, &stderr
		if tc.code != 0 {
			out, other = other, out
		}
		require.Empty(t, other.String(), tc.arg)
		for _, want := range tc.want {
			require.Contains(t, out.String(), want)
		}
	}
}

// A23: a used port of either API ends the kubelet before it starts anything.
func TestUsedPortEndsTheKubelet(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	for _, flags := range [][]string{{"--read-only-port"}, {"--port", "--anonymous-auth", "--authorization-mode=AlwaysAllow"}} {
		root := filepath.Join(t.TempDir(), "root")
		var out bytes.Buffer
		args := append(flags[1:], flags[0]+"="+port, "--address=127.0.0.1", "--container-runtime-endpoint=embedded", "--root-dir="+root, "--healthz-port=0", "--logging-format=json")
		require.Equal(t, 1, realMain(args, io.Discard, &out))
		require.Contains(t, out.String(), flags[0])
		for line := range strings.Lines(out.String()) {
			require.True(t, json.Valid([]byte(line)), line)
		}
		require.NoDirExists(t, root)
	}
}

// A25: the first signal stops the kubelet cleanly, the second one ends it at once with exit code 1.
func TestSignals(t *testing.T) {
	signals, done := make(chan os.Signal), make(chan struct{})
	calls := make(chan string, 2)
	go stopOnSignals(signals, done, func() { calls <- "stop" }, func(code int) { calls <- fmt.Sprint("exit ", code) })
	signals <- syscall.SIGTERM
	require.Equal(t, "stop", <-calls)
	signals <- syscall.SIGINT
	require.Equal(t, "exit 1", <-calls)

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stopOnSignals(signals, done, t.FailNow, func(int) { t.Fail() })
	}()
	close(done)
	<-ended

	ctx, stop := signalContext()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	<-ctx.Done()
	stop()
	stop()
}
