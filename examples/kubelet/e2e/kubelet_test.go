package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

type options struct {
	node     string
	endpoint string
	// config is appended to the configuration file.
	config string
	// manifests is the manifest folder. Default: a new folder.
	manifests string
	// defaultRoot keeps the defaults of --root-dir and podLogsDir.
	defaultRoot bool
	// env is added to the environment; credential is the user to run as.
	env        []string
	credential *syscall.Credential
}

// kubelet is a kubelet process that can be stopped and restarted with the same folders and ports.
type kubelet struct {
	options
	bin, dir, root, logs, output string
	args                         []string
	url                          string
	client                       *http.Client
	proc                         *process
	launches                     int  // number of starts
	logPrinted                   bool // its log was printed
}

// keepLogs is the environment variable with a folder for the kubelets' logs. Without it the logs
// are deleted after the test.
const keepLogs = "PODWRIGHT_E2E_LOGS"

type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed at the end of the process
}

// newKubelet prepares a kubelet without starting it. The clean-up kills it, and prints its log if
// the test has failed.
func newKubelet(t testing.TB, o options) *kubelet {
	t.Helper()
	dir := t.TempDir()
	k := &kubelet{
		options: o, bin: program(t), dir: dir,
		root: filepath.Join(dir, "root"), logs: filepath.Join(dir, "logs"), output: filepath.Join(dir, "kubelet.log"),
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	if keep := os.Getenv(keepLogs); keep != "" {
		k.output = filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "-")+".log")
	}
	if k.manifests == "" {
		k.manifests = filepath.Join(dir, "manifests")
		require.NoError(t, os.Mkdir(k.manifests, 0o755))
	}
	port := freePort(t)
	k.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	config := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\naddress: 127.0.0.1\n" + o.config
	if !strings.Contains(o.config, "makeIPTablesUtilChains") {
		config += "\nmakeIPTablesUtilChains: false" // leaves the machine's firewall unchanged
	}
	if !strings.Contains(o.config, "evictionHard") {
		config += "\nevictionHard: {memory.available: 100Mi}" // the machine's disk may be full
	}
	if !o.defaultRoot {
		config += "\npodLogsDir: " + k.logs + "\n"
		k.args = append(k.args, "--root-dir="+k.root)
	}
	file := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o644))
	k.args = append(k.args, "--config="+file, "--container-runtime-endpoint="+o.endpoint,
		"--logging-format=slog", "--pod-manifest-path="+k.manifests, "--hostname-override="+o.node,
		fmt.Sprintf("--read-only-port=%d", port), "--healthz-port=0", "--v=4")
	if o.endpoint != "embedded" {
		k.args = append(k.args, "--fail-cgroupv1=false", "--cgroup-root=/podwright-"+o.node)
	}
	t.Cleanup(func() {
		k.kill(t)
		tb.UnmountRoot(t, k.root)
		k.printLog(t)
	})
	return k
}

// printLog prints the end of the log once, if the test has failed. The excerpt is short, so that
// the failure above it stays visible, and omits successful runtime calls; keepLogs keeps all lines.
func (k *kubelet) printLog(t testing.TB) {
	if !t.Failed() || k.logPrinted {
		return
	}
	k.logPrinted = true
	var b strings.Builder
	for line := range strings.Lines(k.log(t)) {
		if !strings.Contains(line, `msg="call to the runtime"`) || !strings.Contains(line, "err=<nil>") {
			b.WriteString(strings.TrimSpace(line[:min(len(line), 600)]) + "\n")
		}
	}
	t.Logf("end of the kubelet's log (%s keeps the full log):\n%s", keepLogs, tail(b.String(), 12_000))
}

// freePort returns a port for a kubelet, and reserves it until the test ends, also while no kubelet
// runs: a bound socket that does not listen keeps the kernel from choosing the port for others, but
// a kubelet can listen on it.
func freePort(t testing.TB) int {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(socket)) })
	require.NoError(t, unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	require.NoError(t, unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := unix.Getsockname(socket)
	require.NoError(t, err)
	return bound.(*unix.SockaddrInet4).Port
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "...\n" + s[len(s)-n:]
}

func (k *kubelet) start(t testing.TB) {
	t.Helper()
	cmd := exec.Command(k.bin, k.args...)
	cmd.Env = append(os.Environ(), k.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: k.credential}
	k.proc = launch(t, cmd, k.output)
	k.launches++
}

func launch(t testing.TB, cmd *exec.Cmd, output string) *process {
	t.Helper()
	out, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() { defer close(p.done); _ = cmd.Wait() }() // the outcome is in ProcessState
	return p
}

func (k *kubelet) alive() bool {
	if k.proc == nil {
		return false
	}
	select {
	case <-k.proc.done:
		return false
	default:
		return true
	}
}

// kill sends SIGKILL and waits for the end. Without a process it does nothing.
func (k *kubelet) kill(t testing.TB) {
	if k.proc == nil {
		return
	}
	if err := k.proc.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill the kubelet: %v", err)
	}
	<-k.proc.done
	k.proc = nil
}

// terminate sends SIGTERM and returns the exit code. It waits at least shortestWait.
func (k *kubelet) terminate(t testing.TB, timeout time.Duration) int {
	t.Helper()
	timeout = max(timeout, shortestWait)
	require.NoError(t, k.proc.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-k.proc.done:
	case <-time.After(timeout):
		t.Fatalf("the kubelet did not exit within %s after SIGTERM", timeout)
	}
	code := k.proc.cmd.ProcessState.ExitCode()
	k.proc = nil
	return code
}

// log returns the log of all runs.
func (k *kubelet) log(t testing.TB) string {
	data, err := os.ReadFile(k.output)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read the kubelet's log: %v", err)
	}
	return string(data)
}

func (k *kubelet) logLines(t testing.TB, texts ...string) []string {
	var out []string
next:
	for line := range strings.Lines(k.log(t)) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out
}

func (k *kubelet) get(path string) (status int, body []byte, err error) {
	resp, err := k.client.Get(k.url + path)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

func (k *kubelet) getJSON(path string, into any) error {
	status, body, err := k.get(path)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s: %d: %s", path, status, body)
	}
	return json.Unmarshal(body, into)
}

func (k *kubelet) healthy() error {
	status, body, err := k.get("/healthz")
	if err != nil {
		return err
	}
	if status != http.StatusOK || string(body) != "ok" {
		return fmt.Errorf("/healthz: %d: %s", status, bytes.TrimSpace(body))
	}
	return nil
}

// unhealthy returns nil if /healthz returns 500 and contains all texts.
func (k *kubelet) unhealthy(texts ...string) error {
	status, body, err := k.get("/healthz")
	if err != nil {
		return err
	}
	for _, text := range texts {
		if status != http.StatusInternalServerError || !strings.Contains(string(body), text) {
			return fmt.Errorf("/healthz: want 500 with %q, have %d: %s", text, status, bytes.TrimSpace(body))
		}
	}
	return nil
}

func (k *kubelet) statusz() (server.Report, error) {
	var r server.Report
	return r, k.getJSON("/statusz/pods", &r)
}

func (k *kubelet) pods() ([]v1.Pod, error) {
	var list v1.PodList
	err := k.getJSON("/pods", &list)
	return list.Items, err
}

// pod returns the pod of the manifest with this name. It fails if there is no such pod, or if an
// older one still exists.
func (k *kubelet) pod(name string) (*v1.Pod, error) {
	all, err := k.pods()
	if err != nil {
		return nil, err
	}
	var found []*v1.Pod
	for i := range all {
		if all[i].Name == name+"-"+k.node {
			found = append(found, &all[i])
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d pods with the name %s", len(found), name)
	}
	return found[0], nil
}

func (k *kubelet) container(pod, name string) (*v1.Pod, *v1.ContainerStatus, error) {
	p, err := k.pod(pod)
	if err != nil {
		return nil, nil, err
	}
	if c := statusOf(p, name); c != nil {
		return p, c, nil
	}
	return nil, nil, fmt.Errorf("pod %s has no status of container %s: %s", pod, name, brief(p))
}

func (k *kubelet) isRunning(name string) error {
	p, err := k.pod(name)
	if err != nil {
		return err
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running == nil {
			return errors.New(brief(p))
		}
	}
	if p.Status.Phase != v1.PodRunning || len(p.Status.ContainerStatuses) != len(p.Spec.Containers) {
		return errors.New(brief(p))
	}
	return nil
}

func (k *kubelet) running(t testing.TB, name string) *v1.Pod {
	t.Helper()
	wait(t, 40*time.Second, name+" runs", func() error { return k.isRunning(name) })
	p, err := k.pod(name)
	require.NoError(t, err)
	return p
}

func brief(p *v1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s %s %s", p.Name, p.UID, p.Status.Phase, p.Status.Reason, p.Status.Message)
	for _, c := range p.Status.ContainerStatuses {
		state, err := json.Marshal(c.State)
		fmt.Fprintf(&b, "; %s %s, %d restarts", c.Name, state, c.RestartCount)
		if err != nil {
			b.WriteString(err.Error())
		}
	}
	return b.String()
}

// writeManifest writes a manifest atomically, by renaming a temporary file.
func (k *kubelet) writeManifest(t testing.TB, file string, pod *v1.Pod) {
	t.Helper()
	data, err := yaml.Marshal(pod)
	require.NoError(t, err)
	k.writeManifestText(t, file, string(data))
}

func (k *kubelet) writeManifestText(t testing.TB, file, text string) {
	t.Helper()
	aside := filepath.Join(k.manifests, "."+file+".new")
	require.NoError(t, os.WriteFile(aside, []byte(text), 0o644))
	require.NoError(t, os.Rename(aside, k.manifestPath(file)))
}

func (k *kubelet) manifestPath(file string) string { return filepath.Join(k.manifests, file) }

func (k *kubelet) removeManifest(t testing.TB, file string) {
	t.Helper()
	require.NoError(t, os.Remove(k.manifestPath(file)))
}
