package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Users copy these files, so they must stay short.
func TestFilesAreShort(t *testing.T) {
	for _, file := range []string{"main.go", "workload.go", "workloads.go", "sink.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Less(t, strings.Count(string(text), "\n"), 200, file)
	}
}

// forward forwards a local socket to another socket, as ssh -L does.
func forward(t *testing.T, to string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", at)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() {
		for {
			local, err := l.Accept()
			if err != nil {
				return
			}
			remote, err := net.Dial("unix", strings.TrimPrefix(to, "unix://"))
			if err != nil {
				_ = local.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{local, remote}, {remote, local}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				}()
			}
		}
	}()
	return "unix://" + at
}

// operatorRun is an operator process, and a namespace with its workloads.
type operatorRun struct {
	t       *testing.T
	kubectl string
	name    string // the operator's and the namespace's name
	args    []string
	cmd     *exec.Cmd
}

func (w *operatorRun) start() {
	w.cmd = exec.Command(w.args[0], w.args[1:]...)
	w.cmd.Stdout, w.cmd.Stderr = w.t.Output(), w.t.Output()
	require.NoError(w.t, w.cmd.Start())
}

func (w *operatorRun) end(s syscall.Signal) {
	require.NoError(w.t, w.cmd.Process.Signal(s))
	_ = w.cmd.Wait() // the process was killed
}

func (w *operatorRun) try(in string, args ...string) (string, error) {
	cmd := exec.Command(w.kubectl, append([]string{"-n", w.name}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return string(out), err
}

func (w *operatorRun) do(in string, args ...string) string {
	w.t.Helper()
	out, err := w.try(in, args...)
	require.NoError(w.t, err)
	return out
}

// retry runs kubectl until it succeeds. The API server serves a new resource a moment after its
// definition, and until then kubectl fails.
func (w *operatorRun) retry(in string, args ...string) {
	w.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if _, err = w.try(in, args...); err == nil {
			return
		}
	}
	require.NoError(w.t, err)
}

// until waits until a field of a workload has the value want.
func (w *operatorRun) until(workload, path, want string) {
	w.t.Helper()
	got := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if got = w.do("", "get", "workload", workload, "-o", "jsonpath="+path); strings.Contains(got, want) {
			return
		}
	}
	require.Fail(w.t, workload+" "+path, "%q, want %q", got, want)
}

const objects = `
apiVersion: operator.podwright.dev/v1
kind: Workload
metadata: {name: web}
spec:
  runner: NAME
  pod:
    terminationGracePeriodSeconds: 1
    containers:
    - {name: main, image: "BUSYBOX", command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 1; done"], readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}}
---
apiVersion: operator.podwright.dev/v1
kind: Workload
metadata: {name: once}
spec: {runner: NAME, pod: {restartPolicy: Never, containers: [{name: main, image: "BUSYBOX", command: [sh, -c, exit 7]}]}}
---
apiVersion: operator.podwright.dev/v1
kind: Workload
metadata: {name: files}
spec: {runner: NAME, pod: {volumes: [{name: v, hostPath: {path: /etc}}], containers: [{name: main, image: "BUSYBOX", volumeMounts: [{name: v, mountPath: /v}]}]}}
---
apiVersion: operator.podwright.dev/v1
kind: Workload
metadata: {name: other}
spec: {runner: other, pod: {containers: [{name: main, image: "BUSYBOX"}]}}
`

// Workloads run on a runtime behind a forwarded socket. Fields that need local files are refused
// by name. Pods continue across a kill of the operator and a restart of the API server. Deleted
// workloads leave no pods.
func TestOperator(t *testing.T) {
	plane, images := controlplane.Of(t), tb.Images(t)
	binary := filepath.Join(t.TempDir(), "operator")
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	t.Setenv("KUBECONFIG", plane.Kubeconfig)
	for _, rt := range tb.Runtimes(t) {
		t.Run(rt.Name, func(t *testing.T) {
			dir := t.TempDir()
			w := &operatorRun{t: t, kubectl: plane.Program(t, "kubectl"), name: "operator-" + strings.ToLower(rand.Text()[:8])}
			w.args = []string{binary, "-name", w.name, "-kubeconfig", plane.Kubeconfig, "-runtime", forward(t, rt.Endpoint), "-state", filepath.Join(dir, "state"), "-logs", filepath.Join(dir, "logs")}
			w.do("", "create", "namespace", w.name)
			w.do("", "apply", "-f", "crd.yaml")
			w.retry("", "wait", "--for=condition=Established", "crd/workloads.operator.podwright.dev")
			w.start()
			defer func() { w.end(syscall.SIGKILL) }()
			w.retry(strings.NewReplacer("NAME", w.name, "BUSYBOX", images.Busybox).Replace(objects), "apply", "-f", "-")
			w.until("web", `{.status.conditions[?(@.type=="Ready")].status}`, "True")
			w.until("once", "{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}", "Failed 7")
			w.until("files", "{.status.refused}", "spec.volumes[0]")
			id := w.do("", "get", "workload", "web", "-o", "jsonpath={.status.containerStatuses[0].containerID}")
			require.NotEmpty(t, id)

			w.end(syscall.SIGKILL)
			plane.APIServer.Stop(t)
			w.start() // while the desired state is unavailable
			time.Sleep(3 * time.Second)
			plane.APIServer.Start(t)
			w.do(`{"spec": {"pod": {"containers": []}}}`, "patch", "workload", "web", "--type=merge", "--patch-file=/dev/stdin")
			w.until("web", "{.status.refused}", "spec.containers")
			time.Sleep(5 * time.Second) // a wrong termination would happen within this time
			require.Equal(t, id, w.do("", "get", "workload", "web", "-o", "jsonpath={.status.containerStatuses[0].containerID}"), "web is not restarted")
			require.Equal(t, "0", w.do("", "get", "workload", "web", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"))
			require.Empty(t, w.do("", "get", "workload", "other", "-o", "jsonpath={.status}"))

			w.do("", "delete", "workload", "--all", "--timeout=60s")
			client, err := cri.DialRuntime(t.Context(), cri.ClientConfig{Endpoint: rt.Endpoint})
			require.NoError(t, err)
			defer func() { require.NoError(t, client.Close()) }()
			require.Eventually(t, func() bool {
				sandboxes, err := client.ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labels.PodNamespace: w.name}})
				kept, err2 := os.ReadDir(filepath.Join(dir, "state"))
				require.NoError(t, errors.Join(err, err2))
				return len(sandboxes)+len(kept) == 0
			}, time.Minute, 100*time.Millisecond)
			w.do("", "delete", "namespace", w.name, "--wait=false")
		})
	}
}
