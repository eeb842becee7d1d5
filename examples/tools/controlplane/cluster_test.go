package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

type running struct {
	t         *testing.T
	cmd       *exec.Cmd
	dir       string
	kubectl   string
	described description
	stderr    *bytes.Buffer
}

// startProgram starts the program. Its components take minutes to build, so it skips the test if
// they are not built, unless PODWRIGHT_REQUIRE_CRI is 1.
func startProgram(t *testing.T, args ...string) *running {
	t.Helper()
	b, err := newBuilder(&reporter{w: os.Stderr})
	require.NoError(t, err)
	key, err := b.key("components")
	require.NoError(t, err)
	if !isFile(filepath.Join(b.dir, "components-"+key, kubectl)) && os.Getenv("PODWRIGHT_REQUIRE_CRI") != "1" {
		t.Skip("the control plane is not built yet (go run . -build kubectl)")
	}
	r := &running{t: t, stderr: new(bytes.Buffer)}
	r.kubectl, err = b.program(t.Context(), kubectl)
	require.NoError(t, err)

	self, err := os.Executable()
	require.NoError(t, err)
	tmp, err := os.MkdirTemp("", "cp") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.Remove(tmp), "a file remains") })
	r.cmd = exec.Command(self, append([]string{"-exports"}, args...)...)
	r.cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+tmp)
	r.cmd.Stderr = r.stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	for lines := bufio.NewScanner(out); r.dir == "" && lines.Scan(); {
		r.dir, _ = strings.CutPrefix(lines.Text(), "export "+folderVariable+"=")
		if !strings.HasPrefix(r.dir, tmp) {
			r.dir = ""
		}
	}
	require.NotEmpty(t, r.dir, "%s", r.stderr)
	require.NoError(t, json.Unmarshal(r.control(http.MethodGet, "/"), &r.described))
	return r
}

func (r *running) control(method, path string) []byte {
	r.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(r.dir, "ctl.sock"))
		},
	}}
	request, err := http.NewRequestWithContext(r.t.Context(), method, "http://controlplane"+path, nil)
	require.NoError(r.t, err)
	response, err := client.Do(request)
	require.NoError(r.t, err)
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	require.NoError(r.t, err)
	require.Equal(r.t, http.StatusOK, response.StatusCode, "%s %s: %s", method, path, body.String())
	return body.Bytes()
}

func (r *running) try(kubeconfig, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), r.kubectl, append([]string{"--kubeconfig", kubeconfig, "--cache-dir", filepath.Join(r.dir, "kubectl")}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *running) do(stdin string, args ...string) string {
	r.t.Helper()
	out, err := r.try(r.described.Kubeconfig, stdin, args...)
	require.NoError(r.t, err, "kubectl %v: %s", args, out)
	return out
}

// processes returns the processes of the run, found by the folder in their command lines.
func (r *running) processes() []int {
	var pids []int
	entries, err := os.ReadDir("/proc")
	require.NoError(r.t, err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(line), r.dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (r *running) requireNothingLeft() {
	r.t.Helper()
	eventually(r.t, "processes remain", func() bool { return len(r.processes()) == 0 })
	eventually(r.t, "the folder remains", func() bool { return !exists(r.dir) })
	at, err := url.Parse(r.described.URL)
	require.NoError(r.t, err)
	eventually(r.t, "the port is still open", func() bool {
		conn, err := net.Dial("tcp", at.Host)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

const node = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "%s"}, "status": {
	"capacity": {"cpu": "4", "memory": "4Gi", "pods": "10"}, "allocatable": {"cpu": "4", "memory": "4Gi", "pods": "10"},
	"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "%[2]s", "lastTransitionTime": "%[2]s", "reason": "Test", "message": ""}]}}`

func TestControlPlane(t *testing.T) {
	r := startProgram(t, "-node", "n1")
	require.NotEmpty(t, r.processes())

	r.do("", "create", "namespace", "test")
	eventually(t, "the namespace has a service account", func() bool {
		_, err := r.try(r.described.Kubeconfig, "", "-n", "test", "get", "serviceaccount", "default")
		return err == nil
	})

	// A node may create its own Node. The scheduler binds a pod in a new namespace to it at once, because the Node
	// counts as lost 50 s later.
	kubeconfig := filepath.Join(r.dir, "node.kubeconfig")
	now := strings.TrimSpace(r.do("", "get", "namespace", "default", "-o", "jsonpath={.metadata.creationTimestamp}"))
	out, err := r.try(kubeconfig, fmt.Sprintf(node, "n1", now), "create", "-f", "-")
	require.NoError(t, err, out)
	r.do("", "-n", "test", "run", "p", "--image=none")
	r.do("", "-n", "test", "wait", "pod/p", "--for=jsonpath={.spec.nodeName}=n1", "--timeout=60s")

	// It may not create another one, and may not list secrets.
	out, err = r.try(kubeconfig, fmt.Sprintf(node, "n2", now), "create", "-f", "-")
	require.Error(t, err)
	require.Contains(t, out, "Forbidden")
	out, err = r.try(kubeconfig, "", "get", "secrets", "-A")
	require.Error(t, err)
	require.Contains(t, out, "Forbidden")
	r.do("", "get", "clustertrustbundles")

	// The control endpoint issues certificates for other users.
	other := filepath.Join(t.TempDir(), "kubeconfig")
	text := r.control(http.MethodGet, "/kubeconfig?valid=1h&user=somebody&group=people")
	require.NoError(t, os.WriteFile(other, text, 0o600))
	out, err = r.try(other, "", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}")
	require.NoError(t, err, out)
	require.Contains(t, out, "somebody")
	require.Contains(t, out, "people")

	// The API server keeps its data across restarts.
	for _, verb := range []string{"stop", "kill"} {
		r.control(http.MethodPost, "/kube-apiserver/"+verb)
		_, err = r.try(r.described.Kubeconfig, "", "get", "namespaces")
		require.Error(t, err)
		r.control(http.MethodPost, "/kube-apiserver/start")
		r.do("", "-n", "test", "get", "pod", "p")
	}

	// A second control plane does not affect the first, even when it is killed.
	second := startProgram(t, "-controller-manager=false", "-scheduler=false")
	require.NotEqual(t, r.described.URL, second.described.URL)
	second.do("", "get", "namespaces")
	require.Less(t, len(second.processes()), len(r.processes()))
	require.NoError(t, second.cmd.Process.Kill())
	second.requireNothingLeft()
	r.do("", "-n", "test", "get", "pod", "p")

	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, r.cmd.Wait(), r.stderr.String())
	r.requireNothingLeft()
}
