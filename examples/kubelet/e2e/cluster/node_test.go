package cluster_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/examples/kubelet/e2e/internal/stuck"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// node is a kubelet of a real cluster on a real runtime, with a separate namespace for its pods.
type node struct {
	controlplane.Handle
	name, kubectl, namespace string
	images                   tb.ImageNames
	reader                   reader
	cri                      *cri.RuntimeClient

	runtime tb.Runtime
	stuck   stuck.Starts
	rotated map[string]bool // names of rotated logs, without .tmp and .gz

	dir, root, manifests, output string
	args                         []string
	binary                       string // path of another kubelet. Default: ours
	cmd                          *exec.Cmd
}

// waitTimeout is the timeout of all waits, for loaded machines.
const waitTimeout = 4 * time.Minute

// runningContainer is the start of a container that exits at once on SIGTERM.
const runningContainer = `{command: [sh, -c, 'trap "exit 0" TERM; sleep 86400 & wait'], image: BUSYBOX, name: c`

// boundPod is podManifest for a pod that is bound to the node, with a grace period of 1 s.
func boundPod(metadata, spec string) string {
	return podManifest(metadata, "\n  nodeName: NODE\n  terminationGracePeriodSeconds: 1"+spec)
}

// podManifest returns the manifest of a pod. metadata begins with its name, and spec with a new
// line, in YAML.
func podManifest(metadata, spec string) string {
	return "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + metadata + "}\nspec:" + spec + "\n"
}

// newNode starts a kubelet and waits until its node is ready.
func newNode(t *testing.T, plane controlplane.Handle, rt tb.Runtime, flags ...string) *node {
	t.Helper()
	n := newStoppedNode(t, plane, rt, nil, flags...)
	n.start(t)
	n.nodeReady(t)
	return n
}

// newStoppedNode returns a node whose kubelet is not started. change may adjust the node first, for
// example its API server. It may be nil.
func newStoppedNode(t *testing.T, plane controlplane.Handle, rt tb.Runtime, change func(*node), flags ...string) *node {
	t.Helper()
	n := &node{Handle: plane, name: fmt.Sprintf("n%08x", rand.Uint32()), kubectl: plane.Program(t, "kubectl"), images: tb.Images(t), dir: t.TempDir()}
	if change != nil {
		change(n)
	}
	n.prepare(t, rt, flags)
	return n
}

func (n *node) nodeReady(t *testing.T) {
	t.Helper()
	n.waitField(t, "node", n.name, `{.status.conditions[?(@.type=="Ready")].status}`, "True")
}

// configDir returns the flag for a folder with additional settings.
func configDir(t *testing.T, settings string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/more.conf", []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+settings), 0o600))
	return "--config-dir=" + dir
}

func (n *node) prepare(t *testing.T, rt tb.Runtime, flags []string) {
	n.configure(t, rt, flags)
	n.namespace = n.name
	n.do(t, "create", "namespace", n.namespace)
	n.until(t, "pods have a service account", func() error {
		return n.try("get", "serviceaccount", "default")
	})
	t.Cleanup(func() { n.cleanUp(t) })
}

// configure prepares all that needs no API server.
func (n *node) configure(t *testing.T, rt tb.Runtime, flags []string) {
	t.Helper()
	var err error
	n.runtime = rt
	n.cri, err = cri.DialRuntime(t.Context(), cri.ClientConfig{Endpoint: rt.Endpoint})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.cri.Close()) })
	n.reader, err = newReader(n.Kubeconfig)
	require.NoError(t, err)
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(n.reader.http.Transport) })
	n.root, n.manifests, n.output = filepath.Join(n.dir, "root"), filepath.Join(n.dir, "manifests"), filepath.Join(n.dir, "kubelet.log")
	require.NoError(t, os.Mkdir(n.manifests, 0o755))
	config := filepath.Join(n.dir, "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 100Mi} # the disk may be full\npodLogsDir: "+n.dir+"/logs\n"), 0o600))
	n.args = append([]string{
		"--config=" + config, "--root-dir=" + n.root, "--container-runtime-endpoint=" + rt.Endpoint, "--pod-manifest-path=" + n.manifests,
		"--hostname-override=" + n.name, "--healthz-port=0", "--v=4", "--fail-cgroupv1=false", "--cgroup-root=/podwright-" + n.name, "--port=" + freePort(t), "--client-ca-file=" + n.CA, "--kubeconfig=" + n.NodeKubeconfig(t, n.name, 0),
	}, flags...)
}

// usedPorts counts the ports that freePort has tried, from firstPort on.
var (
	usedPorts atomic.Uint32
	firstPort = rand.Uint32N(8000)
)

// freePort returns a port that no program listens on, another one at each call. The kernel gives
// ports from 32768 on to connections and listeners of other tests. It does not take this port while
// a kubelet is stopped.
func freePort(t testing.TB) string {
	t.Helper()
	for {
		port := fmt.Sprint(11000 + (firstPort+usedPorts.Add(1))%8000)
		l, err := net.Listen("tcp", ":"+port)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, l.Close())
		return port
	}
}

// cleanUp removes all objects of the node and checks for remains.
func (n *node) cleanUp(t *testing.T) {
	if n.cmd == nil {
		n.start(t)
	}
	defer func() {
		if n.cmd != nil { // after a failure; its remains must not count as the next test's leftovers
			n.kill(t)
		}
		if t.Failed() {
			data, _ := os.ReadFile(n.output)
			t.Logf("the end of the kubelet's log:\n%s", data[max(0, len(data)-15_000):])
		}
	}()
	if files, err := filepath.Glob(n.manifests + "/*"); err == nil {
		for _, file := range files {
			require.NoError(t, os.Remove(file))
		}
	}
	n.do(t, "delete", "namespace", n.namespace, "--wait=false")
	n.until(t, "the pods have no remains", func() error {
		n.unstick(t)
		left, err := filepath.Glob(n.root + "/pods/*")
		return errors.Join(err, n.empty(), listError("folders", left), listError("cgroups", tb.PodCgroups("/podwright-"+n.name)))
	})
	n.kill(t)
	tb.UnmountRoot(t, n.root)
	tb.RemoveCgroups(t, "/podwright-"+n.name)
	n.do(t, "delete", "node", n.name)
}

func listError(name string, list []string) error {
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", name, strings.Join(list, " "))
}

func (n *node) start(t *testing.T) {
	t.Helper()
	out, err := os.OpenFile(n.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer out.Close()
	n.cmd = exec.Command(cmp.Or(n.binary, kubeletPath(t)), n.args...)
	n.cmd.Stdout, n.cmd.Stderr = out, out
	require.NoError(t, n.cmd.Start())
}

func (n *node) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, n.cmd.Process.Signal(syscall.SIGKILL))
	_ = n.cmd.Wait() // killed
	n.cmd = nil
}

// stop sends SIGTERM and waits for the end.
func (n *node) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, n.cmd.Process.Signal(syscall.SIGTERM))
	_ = n.cmd.Wait() // upstream's reports the signal
	n.cmd = nil
}

func (n *node) try(args ...string) error {
	_, err := n.run(nil, args...)
	return err
}

func (n *node) run(stdin []byte, args ...string) (string, error) {
	cmd := exec.Command(n.kubectl, append([]string{"--kubeconfig", n.Kubeconfig, "--namespace", n.namespace}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// do runs kubectl and fails the test on an error.
func (n *node) do(t testing.TB, args ...string) string {
	t.Helper()
	out, err := n.run(nil, args...)
	require.NoError(t, err)
	return out
}

// apply passes objects to kubectl apply. NODE, NS, BUSYBOX and TESTPROG are replaced.
func (n *node) apply(t testing.TB, yaml string) {
	t.Helper()
	yaml = strings.NewReplacer("NODE", n.name, "NS", n.namespace, "BUSYBOX", n.images.Busybox, "TESTPROG", n.images.Testprog).Replace(yaml)
	_, err := n.run([]byte(yaml), "apply", "-f", "-")
	require.NoError(t, err)
}

// get returns a field of an object, or "" if there is no such object.
func (n *node) get(t testing.TB, kind, name, jsonpath string) string {
	t.Helper()
	out, err := n.field(kind, name, jsonpath)
	if errors.Is(err, errors.ErrUnsupported) {
		return n.do(t, "get", kind, name, "--ignore-not-found", "-o", "jsonpath="+jsonpath)
	}
	require.NoError(t, err)
	return out
}

func (n *node) pods(t testing.TB) []v1.Pod {
	t.Helper()
	var list v1.PodList
	_, err := n.reader.read("/api/v1/namespaces/"+n.namespace+"/pods", &list)
	require.NoError(t, err)
	return list.Items
}

// until polls cond until it returns nil, or fails the test after waitTimeout.
func (n *node) until(t testing.TB, goal string, cond func() error) {
	t.Helper()
	var err error
	for begin := time.Now(); time.Since(begin) < waitTimeout; time.Sleep(200 * time.Millisecond) {
		if err = cond(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %s: %v", goal, waitTimeout, err)
}

func (n *node) ready(t testing.TB, pod string) {
	t.Helper()
	n.until(t, pod+" is ready", func() error {
		if out := n.get(t, "pod", pod, `{.status.conditions[?(@.type=="Ready")].status}`); out != "True" {
			return errors.New(n.get(t, "pod", pod, "{.status}"))
		}
		return nil
	})
}

func (n *node) waitDeleted(t testing.TB, kind, name string) {
	t.Helper()
	n.waitField(t, kind, name, "{.metadata.name}{.status.phase}", "")
}

// containers returns the runtime's containers of the namespace.
func (n *node) containers() ([]*runtimeapi.Container, error) {
	return n.cri.ListContainers(context.Background(), &runtimeapi.ContainerFilter{LabelSelector: map[string]string{labels.PodNamespace: n.namespace}})
}

// ids returns the IDs of the running containers by pod and container name.
func (n *node) ids(t testing.TB) map[string]string {
	t.Helper()
	ids, err := n.running()
	require.NoError(t, err)
	return ids
}

// running is ids with an error, for a runtime that may be unavailable.
func (n *node) running() (map[string]string, error) {
	list, err := n.containers()
	out := map[string]string{}
	for _, c := range list {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			out[c.Labels[labels.PodName]+"/"+c.Metadata.Name] = c.Id
		}
	}
	return out, err
}

// empty returns an error if the runtime has pods of the namespace.
func (n *node) empty() error {
	list, err := n.containers()
	if err != nil {
		return err
	}
	sandboxes, err := n.cri.ListPodSandbox(context.Background(), &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labels.PodNamespace: n.namespace}})
	if err != nil || len(list)+len(sandboxes) == 0 {
		return err
	}
	return fmt.Errorf("%d containers, %d sandboxes", len(list), len(sandboxes))
}

func (n *node) exec(t testing.TB, container string, cmd ...string) string {
	t.Helper()
	stdout, stderr, err := n.cri.ExecSync(t.Context(), n.ids(t)[container], cmd, 30*time.Second)
	require.NoError(t, err, "%s", stderr)
	return string(stdout)
}

// unstick restarts a runtime that cannot remove a container after an interrupted start.
func (n *node) unstick(t *testing.T) {
	t.Helper()
	n.stuck.Free(t, read(t, n.output), n.runtime)
}

// probedContainer is a container with liveness and readiness probes each second. Their timeout of
// ten seconds suits loaded machines: a slower probe is a fault.
const probedContainer = runningContainer + `, readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1, timeoutSeconds: 10}, livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}}`

const wellPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: well}\nspec: {nodeName: NODE, containers: [" + probedContainer + "]}\n"
