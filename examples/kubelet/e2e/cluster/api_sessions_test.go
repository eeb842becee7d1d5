package cluster_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podwright/podwright/cri/streams"
)

// logsSince checks the parts of a log selected by age.
func (n *node) logsSince(t *testing.T) {
	all := n.do(t, "logs", "a", "-c", "c", "--since=1h")
	require.Equal(t, "first\nsecond\n", firstLines(all, 2))
	require.NotContains(t, n.do(t, "logs", "a", "-c", "c", "--since=1s"), "first")
	n.until(t, "the log has 20 lines", func() error {
		if lines := strings.Count(n.do(t, "logs", "a", "-c", "c"), "\n"); lines < 20 {
			return fmt.Errorf("%d lines", lines)
		}
		return nil
	})
	stamped := n.do(t, "logs", "a", "-c", "c", "--timestamps", "--tail=8")
	moment, _, _ := strings.Cut(stamped, " ")
	at, err := time.Parse(time.RFC3339Nano, moment)
	require.NoError(t, err)
	at = at.Truncate(time.Second) // the resolution of API times
	lines := strings.Split(strings.TrimSpace(n.do(t, "logs", "a", "-c", "c", "--timestamps", "--since-time="+at.Format(time.RFC3339))), "\n")
	require.GreaterOrEqual(t, len(lines), 8)
	for _, line := range lines {
		moment, _, _ := strings.Cut(line, " ")
		is, err := time.Parse(time.RFC3339Nano, moment)
		require.NoError(t, err)
		require.False(t, is.Before(at), line)
	}
	require.Contains(t, n.do(t, "logs", "a", "-c", "c", "--since-time="+at.Add(-time.Hour).Format(time.RFC3339)), "first")
	both := n.do(t, "logs", "a", "--all-containers", "--prefix", "--tail=1")
	require.Regexp(t, `(?m)^\[pod/a/c\] line `, both)
	require.Regexp(t, `(?m)^\[pod/a/talker\] spoken`, both)
}

// logsAcrossRotations follows a log during rotations: no line is missing or duplicated.
func (n *node) logsAcrossRotations(t *testing.T) {
	follow := n.command("logs", "a", "-c", "flood", "-f", "--tail=1")
	out, err := follow.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, follow.Start())
	defer func() { _ = follow.Wait() }() // killed
	defer func() { _ = follow.Process.Kill() }()
	rotated := func() int {
		files, err := filepath.Glob(filepath.Join(n.dir, "logs", "*_a_*", "flood", "0.log.*"))
		require.NoError(t, err)
		return len(files)
	}
	before := n.rotations(t)
	lines, last := bufio.NewScanner(out), 0
	for begin := time.Now(); n.rotations(t) < before+2; {
		require.Less(t, time.Since(begin), waitTimeout, "rotated %d times", rotated())
		for range 100 {
			require.True(t, lines.Scan(), "%v", lines.Err())
			number, _, _ := strings.Cut(lines.Text(), " ")
			i, err := strconv.Atoi(number)
			require.NoError(t, err, lines.Text())
			require.True(t, last == 0 || i == last+1, "%d after %d", i, last)
			last = i
		}
	}
}

// rotations counts the rotations of the flood's log: all rotated files seen so far, including
// removed ones.
func (n *node) rotations(t *testing.T) int {
	files, err := filepath.Glob(filepath.Join(n.dir, "logs", "*_a_*", "flood", "0.log.*"))
	require.NoError(t, err)
	if n.rotated == nil {
		n.rotated = map[string]bool{}
	}
	for _, file := range files {
		n.rotated[strings.TrimSuffix(strings.TrimSuffix(file, ".tmp"), ".gz")] = true
	}
	return len(n.rotated)
}

// terminal is a pseudo-terminal for kubectl.
type terminal struct{ master, slave *os.File }

func openTerminal(t *testing.T) terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return terminal{master, slave}
}

func (w terminal) resize(t *testing.T, rows, columns uint16) {
	t.Helper()
	require.NoError(t, unix.IoctlSetWinsize(int(w.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

// terminals: exec -it has the size of the terminal, follows its changes, and returns the exit code.
func (n *node) terminals(t *testing.T) {
	screen := openTerminal(t)
	screen.resize(t, 30, 90)
	cmd := n.command("exec", "-it", "a", "-c", "c", "--", "sh")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen.slave, screen.slave, screen.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, screen.slave.Close())
	var mu sync.Mutex
	var shown bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() {
		for text := make([]byte, 4096); ; {
			k, err := screen.master.Read(text)
			mu.Lock()
			shown.Write(text[:k])
			mu.Unlock()
			if err != nil { // EIO: kubectl has exited
				return
			}
		}
	})
	waitShown := func(text string) {
		n.until(t, "the terminal shows "+text, func() error {
			_, err := io.WriteString(screen.master, "stty size\r")
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			if !strings.Contains(shown.String(), text) {
				return errors.New(shown.String())
			}
			return nil
		})
	}
	waitShown("30 90")
	screen.resize(t, 50, 132)
	waitShown("50 132")
	_, err := io.WriteString(screen.master, "test -t 2 && exit 3\r")
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
	reading.Wait()
	require.Equal(t, 3, cmd.ProcessState.ExitCode(), shown.String())
}

func (n *node) copiesLargeFile(t *testing.T) {
	const size = 20_000_000
	file := filepath.Join(n.dir, "much")
	out, err := os.Create(file)
	require.NoError(t, err)
	sum := sha256.New()
	_, err = io.CopyN(io.MultiWriter(out, sum), rand.NewChaCha8([32]byte{1}), size)
	require.NoError(t, errors.Join(err, out.Close()))
	want := hex.EncodeToString(sum.Sum(nil))
	begin := time.Now()
	n.do(t, "cp", file, "a:/tmp/much", "-c", "c")
	upload := time.Since(begin)
	require.Contains(t, n.do(t, "exec", "a", "-c", "c", "--", "sha256sum", "/tmp/much"), want)
	begin = time.Now()
	n.do(t, "cp", "a:/tmp/much", file+"-back", "-c", "c")
	t.Logf("20 MB: to the container %.1f s, back %.1f s", upload.Seconds(), time.Since(begin).Seconds())
	n.do(t, "exec", "a", "-c", "c", "--", "rm", "/tmp/much")
	back, err := os.Open(file + "-back")
	require.NoError(t, err)
	defer back.Close()
	sum.Reset()
	_, err = io.Copy(sum, back)
	require.NoError(t, err)
	require.Equal(t, want, hex.EncodeToString(sum.Sum(nil)))
	require.NoError(t, errors.Join(os.Remove(file), os.Remove(file+"-back")))
}

func (n *node) forward(t *testing.T, pod, port string) int {
	t.Helper()
	cmd := n.command("port-forward", "pod/"+pod, ":"+port)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	var local int
	_, err = fmt.Sscanf(lines.Text(), "Forwarding from 127.0.0.1:%d", &local)
	require.NoError(t, err, lines.Text())
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with kubectl
	return local
}

// forwardsInParallel: 50 concurrent connections transfer 1 MB each. A connection to a port without
// a listener fails and affects no others.
func (n *node) forwardsInParallel(t *testing.T) {
	open, closed := n.forward(t, "a", "8080"), n.forward(t, "a", "9")
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(port int, path string) (string, error) {
		response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/%s", port, path))
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	for _, port := range []int{closed, closed} {
		_, err := get(port, "")
		require.Error(t, err, "no program listens on the port")
	}
	var all sync.WaitGroup
	sums := make([]error, 50)
	for i := range sums {
		all.Go(func() {
			body, err := get(open, "large")
			if err == nil && (len(body) != 1<<20 || strings.Trim(body, "x") != "") {
				err = fmt.Errorf("%d bytes", len(body))
			}
			sums[i] = err
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(sums...))
	body, err := get(open, "")
	require.NoError(t, err)
	require.Equal(t, "served\n", body)
}

// staticPod: logs and exec of a static pod use the name and UID of its mirror pod.
func (n *node) staticPod(t *testing.T) {
	manifest := strings.NewReplacer("NS", n.namespace, "BUSYBOX", n.images.Busybox).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: static, namespace: NS}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: BUSYBOX, command: [sh, -c, 'echo from a file; sleep 3600']}]
`)
	file := filepath.Join(n.manifests, "static.yaml")
	require.NoError(t, os.WriteFile(n.dir+"/static.yaml", []byte(manifest), 0o600))
	require.NoError(t, os.Rename(n.dir+"/static.yaml", file))
	name := "static-" + n.name
	n.ready(t, name)
	n.until(t, "the log of the static pod", func() error { return same("from a file\n", n.do(t, "logs", name)) })
	require.Equal(t, name+"\n", n.do(t, "exec", name, "--", "hostname"))
	require.NoError(t, os.Remove(file))
	n.waitDeleted(t, "pod", name)
}

// endpoints checks the output of kubectl get --raw for each endpoint through the node's proxy.
func (n *node) endpoints(t *testing.T) {
	of := func(pod string) string { return n.namespace + "/" + pod }
	for path, want := range map[string]string{
		"healthz": "ok", "healthz/ping": "ok", "healthz/syncloop": "ok", "pods": `"kind":"PodList"`, "runningpods/": `"kind":"PodList"`,
		"statusz/pods": `"worker":"Syncing"`, "configz": `"kubeletconfig"`, "logs/": "<pre>",
		"containerLogs/" + of("a/c") + "?limitBytes=5": "first", "debug/pprof/": "goroutine", "debug/pprof/goroutine?debug=1": "goroutine profile: total",
		"debug/pprof/heap?debug=1": "heap profile", "debug/pprof/cmdline": n.name, "debug/pprof/symbol": "num_symbols",
	} {
		require.Contains(t, n.do(t, "get", "--raw", "/api/v1/nodes/"+n.name+"/proxy/"+path), want, path)
	}
	for path, want := range map[string]string{ // kubectl prints the reason instead of the text
		"exec/" + of("a/c") + "?command=ls&output=1": "BadRequest", "attach/" + of("a/c") + "?output=1": "BadRequest", "portForward/" + of("a"): "BadRequest",
		"containerLogs/" + of("a/none"): "NotFound", "containerLogs/" + of("none/c"): "NotFound", "containerLogs/" + of("a/c") + "?tailLines=-1": "BadRequest",
		"run/" + of("a/c") + "?cmd=ls": "MethodNotAllowed", "checkpoint/" + of("a/c"): "MethodNotAllowed", "debug/flags/v": "MethodNotAllowed", "nothing": "NotFound",
	} {
		require.ErrorContains(t, n.try("get", "--raw", "/api/v1/nodes/"+n.name+"/proxy/"+path), want, path)
	}
}

func credentials(t testing.TB, kubeconfig string) *tls.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	secure, err := rest.TLSConfigFor(config)
	require.NoError(t, err)
	return secure
}

// protocols: with clients that use SPDY or WebSocket v5 (which alone can close standard input) the
// API server uses SPDY to the node, unless the node declares WebSocket support.
func (n *node) protocols(t *testing.T) {
	require.NotContains(t, n.get(t, "node", n.name, "{.status.features} {.status.declaredFeatures}"), "WebSocket")
	for name, protocol := range map[string]streams.Protocol{"SPDY": streams.SPDY, "WebSocket v5": streams.WebSocket} {
		var out strings.Builder
		client := &streams.Client{Protocol: protocol, TLS: credentials(t, n.Kubeconfig)}
		code, err := client.Exec(t.Context(), n.URL+"/api/v1/namespaces/"+n.namespace+"/pods/a/exec?container=c&stdin=true&stdout=true&command=sh&command=-c&command=tr+a-z+A-Z%3B+exit+7",
			streams.Session{Stdin: strings.NewReader("to upper"), Stdout: &out})
		require.NoError(t, err, name)
		require.Equal(t, 7, code, name)
		require.Equal(t, "TO UPPER", out.String(), name)
	}
	for _, sockets := range []string{"true", "false"} { // both settings of kubectl
		cmd := n.command("exec", "-i", "a", "-c", "c", "--", "tr", "a-z", "A-Z")
		cmd.Env = append(cmd.Environ(), "KUBECTL_REMOTE_COMMAND_WEBSOCKETS="+sockets, "KUBECTL_PORT_FORWARD_WEBSOCKETS="+sockets)
		cmd.Stdin = strings.NewReader("upper")
		out, err := cmd.Output()
		require.NoError(t, err, "%s", stderrOf(err))
		require.Equal(t, "UPPER", string(out))
	}
}

func stderrOf(err error) []byte {
	if e := new(exec.ExitError); errors.As(err, &e) {
		return e.Stderr
	}
	return nil
}
