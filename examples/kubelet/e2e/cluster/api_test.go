package cluster_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kubectl works through the kubelet API: logs, exec, cp, attach, port-forward, debug and the node's
// proxy (A19, A20, A31, A32).
func TestKubeletAPI(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		n.apply(t, boundPod("a", `
  containers:
  - {name: c, image: BUSYBOX, command: [sh, -c, 'echo first; echo second; mkdir -p /www; head -c 1048576 /dev/zero | tr "\\0" x > /www/large; echo served > /www/index.html; httpd -p 8080 -h /www; i=0; while :; do i=$((i+1)); echo line $i; sleep 0.2; done']}
  - {name: talker, image: BUSYBOX, command: [sh, -c, 'echo spoken; sleep 3600']}
  - {name: flood, image: BUSYBOX, command: [sh, -c, 'x=$(head -c 500 /dev/zero | tr "\\0" x); i=0; while :; do seq $((i+1)) $((i+40)) | sed "s/\$/ $x/"; i=$((i+40)); sleep 0.05; done']}
  - {name: reader, image: BUSYBOX, stdin: true, command: [sh, -c, 'while read line; do echo "got $line"; done; sleep 3600']}`)+boundPod("crash", `
  containers:
  - {name: c, image: BUSYBOX, command: [sh, -c, 'echo it failed; exit 7']}`))
		n.ready(t, "a")
		before := n.ids(t)
		t.Run("logs", n.logs)
		t.Run("logs since", n.logsSince)
		t.Run("logs across rotations", n.logsAcrossRotations)
		t.Run("exec", n.execs)
		t.Run("terminal", n.terminals)
		t.Run("protocols", n.protocols)
		t.Run("cp", n.copiesLargeFile)
		t.Run("attach", n.attaches)
		t.Run("port-forward", n.forwardsInParallel)
		t.Run("static", n.staticPod)
		t.Run("endpoints", n.endpoints)
		t.Run("proxy", n.proxyPaths)
		t.Run("rights", n.rights)
		t.Run("debug", n.debugs)
		after := n.ids(t)
		for name, id := range before {
			if strings.HasPrefix(name, "a/") {
				require.Equal(t, id, after[name], "%s continues", name)
			}
		}
	}, configDir(t, "containerLogMaxSize: 1Mi\ncontainerLogMonitorInterval: 3s\n"))
}

func (n *node) logs(t *testing.T) {
	n.until(t, "the program has written a line of its loop", func() error {
		if out := n.do(t, "logs", "a", "-c", "c"); !strings.Contains(out, "line 1\n") {
			return errors.New(out)
		}
		return nil
	})
	require.Equal(t, "first\nsecond\n", firstLines(n.do(t, "logs", "a", "-c", "c"), 2))
	require.Len(t, strings.Split(strings.TrimSpace(n.do(t, "logs", "a", "-c", "c", "--tail=3")), "\n"), 3)
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\S+ line \d+`, n.do(t, "logs", "a", "-c", "c", "--tail=1", "--timestamps"))
	require.Len(t, n.do(t, "logs", "a", "-c", "c", "--limit-bytes=5"), 5)
	n.until(t, "log of the previous instance", func() error {
		out, err := n.run(nil, "logs", "crash", "--previous")
		if err == nil && out != "it failed\n" {
			err = errors.New(out)
		}
		return err
	})
	require.ErrorContains(t, n.try("logs", "a", "-c", "c", "--previous"), "no previous instance")
	require.Error(t, n.try("logs", "a", "-c", "none"))

	follow := n.command("logs", "a", "-c", "c", "-f", "--tail=0")
	out, err := follow.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, follow.Start())
	lines := bufio.NewScanner(out)
	for range 3 {
		require.True(t, lines.Scan())
		require.Contains(t, lines.Text(), "line ")
	}
	require.NoError(t, follow.Process.Kill())
	_ = follow.Wait() // killed
}

func firstLines(text string, n int) string {
	return strings.Join(strings.SplitAfterN(text, "\n", n+1)[:n], "")
}

// command returns a kubectl command that keeps running.
func (n *node) command(args ...string) *exec.Cmd {
	return exec.Command(n.kubectl, append([]string{"--kubeconfig", n.Kubeconfig, "--namespace", n.namespace}, args...)...)
}

func (n *node) execs(t *testing.T) {
	require.Equal(t, "hello\n", n.do(t, "exec", "a", "-c", "c", "--", "echo", "hello"))
	out, err := n.run([]byte("to upper"), "exec", "-i", "a", "-c", "c", "--", "tr", "a-z", "A-Z")
	require.NoError(t, err)
	require.Equal(t, "TO UPPER", out)
	cmd := n.command("exec", "a", "-c", "c", "--", "sh", "-c", "echo wrong >&2; exit 7")
	text, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 7, cmd.ProcessState.ExitCode())
	require.Contains(t, string(text), "wrong")
	require.ErrorContains(t, n.try("exec", "a", "-c", "c", "--", "/no/such/program"), "no such file")
	n.until(t, "exec in a container that does not run fails", func() error { // it may just run
		if err := n.try("exec", "crash", "--", "ls"); err == nil || !strings.Contains(err.Error(), "not") {
			return fmt.Errorf("exec: %v", err)
		}
		return nil
	})
}

func (n *node) attaches(t *testing.T) {
	cmd := n.command("attach", "-i", "a", "-c", "reader")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var answered atomic.Bool
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); { // kubectl's messages, then the answers
			if strings.Contains(lines.Text(), "got one") {
				answered.Store(true)
			}
		}
	})
	defer func() {
		_ = cmd.Process.Kill()
		reading.Wait()
		_ = cmd.Wait() // killed
	}()
	// containerd forwards input before it forwards output: the first answer may be lost.
	n.until(t, "the program's answer arrives", func() error {
		_, err := io.WriteString(in, "one\n")
		require.NoError(t, err)
		if !answered.Load() {
			return errors.New("no answer")
		}
		return nil
	})
}

// proxyPaths: unknown paths and paths that lead elsewhere are rejected.
func (n *node) proxyPaths(t *testing.T) {
	for path, want := range map[string]string{"metrics/nothing": "NotFound", "logs/../../etc/shadow": "", "logs/%2e%2e/%2e%2e/etc/shadow": "", "checkpoint/x/y/z": ""} {
		require.ErrorContains(t, n.try("get", "--raw", "/api/v1/nodes/"+n.name+"/proxy/"+path), want, path)
	}
}

// rights: requests without credentials or permission are rejected; some permissions open some
// paths.
func (n *node) rights(t *testing.T) {
	n.apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: scraper}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NS-scraper}
rules: [{apiGroups: [""], resources: [nodes/metrics, nodes/pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NS-scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NS-scraper}
subjects: [{kind: ServiceAccount, name: scraper, namespace: NS}]
`)
	defer n.do(t, "delete", "clusterrole,clusterrolebinding", n.namespace+"-scraper")
	tokens := map[string]string{"": "", "wrong": "x.y.z", "default": n.do(t, "create", "token", "default"), "scraper": n.do(t, "create", "token", "scraper")}
	address := n.get(t, "node", n.name, `{.status.addresses[?(@.type=="InternalIP")].address}:{.status.daemonEndpoints.kubeletEndpoint.Port}`)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, c := range []struct {
		user, path string
		code       int
	}{
		{"", "/pods", 401}, {"wrong", "/pods", 401}, {"default", "/pods", 403}, {"scraper", "/pods", 200},
		{"", "/healthz", 401}, {"", "/nothing", 401}, {"default", "/nothing", 403},
		{"scraper", "/metrics", 200}, {"scraper", "/configz", 403}, {"scraper", "/exec/" + n.namespace + "/a/c?command=id&output=1", 403},
		{"scraper", "/containerLogs/" + n.namespace + "/a/c", 403}, {"scraper", "/metrics/%2e%2e/configz", 400}, {"scraper", "/logs/", 403},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+c.path, nil)
		require.NoError(t, err)
		if token := strings.TrimSpace(tokens[c.user]); token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, c.code, response.StatusCode, "credentials %q, path %s", c.user, c.path)
	}
}

// debugs adds an ephemeral container in the pod's network.
func (n *node) debugs(t *testing.T) {
	n.do(t, "debug", "a", "--image="+n.images.Busybox, "--container=look", "--image-pull-policy=IfNotPresent", "--profile=general", "--", "wget", "-q", "-O", "-", "http://127.0.0.1:8080/")
	n.waitField(t, "pod", "a", `{.status.ephemeralContainerStatuses[0].state.terminated.exitCode}`, "0")
	require.Equal(t, "served\n", n.do(t, "logs", "a", "-c", "look"))
}
