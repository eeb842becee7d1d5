package cluster_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
	"github.com/podwright/podwright/examples/tools/testbed/tb/images"
)

var selfHostedRounds = flag.Int("selfhosted", 0, "number of additional rounds of TestControlPlaneOfStaticPods, each with one disturbance at a time; a minute each")

// A node whose control plane consists of its own static pods starts with only a bootstrap
// kubeconfig. It becomes ready again by itself after a kill -9 of the kubelet, containerd and all
// containers, with a client certificate that has expired meanwhile. An upgrade of the kubelet
// disturbs no container.
func TestControlPlaneOfStaticPods(t *testing.T) {
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		s := newSelfHosted(t, plane, rt)
		s.start(t)
		s.allowRequests(t)
		s.requireReady(t, time.Time{})
		s.until(t, "pods have a service account", func() error { return s.try("get", "serviceaccount", "default") })
		s.apply(t, strings.Replace(wellPod, "{nodeName", "{automountServiceAccountToken: false, nodeName", 1))
		s.ready(t, "well")

		killed := s.killAll(t)
		s.expire(t)
		s.boot(t, killed)
		s.upgrade(t)
		for range *selfHostedRounds {
			killed = s.killAll(t)
			s.boot(t, killed)
			s.stop(t)
			s.expire(t)
			s.boot(t, killed)
			s.upgrade(t)
		}
	})
}

// selfHosted is a node whose etcd, kube-apiserver and kube-controller-manager are its static pods.
// They have the authority and keys of the testbed's control plane, and another port.
type selfHosted struct {
	*node
	upgrades int
}

// controlPlanePods are the names of the static pods.
var controlPlanePods = []string{"etcd", "kube-apiserver", "kube-controller-manager"}

func newSelfHosted(t *testing.T, plane controlplane.Handle, rt tb.Runtime) *selfHosted {
	t.Helper()
	image := images.Push(t, "selfhosted/kubernetes:v1", "components", realPath(t, plane.Program(t, "kube-apiserver")), controlPlanePods...)
	keys := filepath.Dir(plane.CA)
	api := freePort(t)
	plane.URL = "https://127.0.0.1:" + api
	plane.Kubeconfig = plane.UserKubeconfig(t, "admin", "system:masters", 0)
	s := &selfHosted{node: &node{Handle: plane, name: fmt.Sprintf("n%08x", rand.Uint32()), kubectl: plane.Program(t, "kubectl"), images: tb.Images(t), dir: t.TempDir()}}
	s.configure(t, rt, nil)
	s.namespace = "default"
	s.join(t, plane.UserKubeconfig(t, "system:bootstrap:"+s.name, "system:bootstrappers", 0))
	dir := filepath.Join(s.dir, "controlplane")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for _, file := range []string{"ca.crt", "ca.key", "apiserver.crt", "apiserver.key", "kubelet-client.crt", "kubelet-client.key", "serviceaccounts.key", "serviceaccounts.pub"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(read(t, filepath.Join(keys, file))), 0o600))
	}
	require.NoError(t, os.Rename(plane.UserKubeconfig(t, "system:kube-controller-manager", "", 0), filepath.Join(dir, "kube-controller-manager.kubeconfig")))
	values := strings.NewReplacer("IMAGE", image, "DIR", dir, "APIPORT", api, "ETCDPORT", freePort(t), "PEERPORT", freePort(t))
	for _, pod := range controlPlanePods {
		require.NoError(t, os.WriteFile(filepath.Join(s.manifests, pod+".yaml"), []byte(values.Replace(staticPod(pod))), 0o600))
	}
	t.Cleanup(func() { s.cleanUp(t) })
	return s
}

func realPath(t *testing.T, path string) string {
	t.Helper()
	out, err := filepath.EvalSymlinks(path)
	require.NoError(t, err)
	return out
}

// staticPod returns the manifest of a component. It resembles kubeadm's, with shorter periods.
func staticPod(name string) string {
	command := map[string]string{
		"etcd": `--data-dir=DIR/etcd --log-level=warn --unsafe-no-fsync
    --listen-client-urls=http://127.0.0.1:ETCDPORT --advertise-client-urls=http://127.0.0.1:ETCDPORT
    --listen-peer-urls=http://127.0.0.1:PEERPORT --initial-advertise-peer-urls=http://127.0.0.1:PEERPORT --initial-cluster=default=http://127.0.0.1:PEERPORT`,
		"kube-apiserver": `--etcd-servers=http://127.0.0.1:ETCDPORT --bind-address=127.0.0.1 --secure-port=APIPORT
    --advertise-address=127.0.0.1 --endpoint-reconciler-type=none
    --tls-cert-file=DIR/apiserver.crt --tls-private-key-file=DIR/apiserver.key --client-ca-file=DIR/ca.crt
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true
    --service-account-issuer=https://kubernetes.default.svc
    --service-account-signing-key-file=DIR/serviceaccounts.key --service-account-key-file=DIR/serviceaccounts.pub
    --kubelet-client-certificate=DIR/kubelet-client.crt --kubelet-client-key=DIR/kubelet-client.key
    --kubelet-preferred-address-types=InternalIP,Hostname --service-cluster-ip-range=10.32.0.0/16`,
		"kube-controller-manager": `--kubeconfig=DIR/kube-controller-manager.kubeconfig --secure-port=0 --leader-elect=false
    --use-service-account-credentials=true --service-account-private-key-file=DIR/serviceaccounts.key --root-ca-file=DIR/ca.crt
    --cluster-signing-cert-file=DIR/ca.crt --cluster-signing-key-file=DIR/ca.key`,
	}[name]
	probe := func(kind, path, port, scheme string, failures int) string {
		return fmt.Sprintf("    %s: {httpGet: {host: 127.0.0.1, path: %s, port: %s, scheme: %s}, periodSeconds: 2, timeoutSeconds: 15, failureThreshold: %d}\n", kind, path, port, scheme, failures)
	}
	probes := map[string]string{
		"etcd":           probe("startupProbe", "/health", "ETCDPORT", "HTTP", 120) + probe("livenessProbe", "/health", "ETCDPORT", "HTTP", 60),
		"kube-apiserver": probe("startupProbe", "/livez", "APIPORT", "HTTPS", 120) + probe("livenessProbe", "/livez", "APIPORT", "HTTPS", 60) + probe("readinessProbe", "/readyz", "APIPORT", "HTTPS", 3),
	}[name]
	var args strings.Builder
	for _, arg := range strings.Fields(command) {
		args.WriteString("    - " + arg + "\n")
	}
	return `apiVersion: v1
kind: Pod
metadata:
  name: ` + name + `
  namespace: kube-system
  labels: {component: ` + name + `, tier: control-plane}
spec:
  hostNetwork: true
  priority: 2000001000
  priorityClassName: system-node-critical
  terminationGracePeriodSeconds: 10
  containers:
  - name: ` + name + `
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command:
    - /` + name + `
` + args.String() + probes + `    volumeMounts: [{name: dir, mountPath: DIR}]
  volumes: [{name: dir, hostPath: {path: DIR, type: DirectoryOrCreate}}]
`
}

// requireReady waits until the kubelet has renewed its lease, its node is ready, and all static pods
// are, with containers that started after a given time.
func (s *selfHosted) requireReady(t *testing.T, since time.Time) {
	t.Helper()
	begin := time.Now()
	s.isMember(t)
	for _, name := range controlPlanePods {
		s.until(t, name+" is ready", func() error { return s.podReady("kube-system", name+"-"+s.name, since) })
	}
	t.Logf("ready after %s", time.Since(begin).Round(100*time.Millisecond))
}

func (s *selfHosted) podReady(namespace, name string, since time.Time) error {
	var pod v1.Pod
	found, err := s.reader.read("/api/v1/namespaces/"+namespace+"/pods/"+name, &pod)
	if err != nil || !found {
		return errors.Join(err, errors.New("no pod"))
	}
	for _, c := range pod.Status.ContainerStatuses {
		if !c.Ready || c.State.Running == nil || c.State.Running.StartedAt.Time.Before(since.Truncate(time.Second)) {
			return fmt.Errorf("%+v", pod.Status)
		}
	}
	if len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) {
		return fmt.Errorf("%+v", pod.Status)
	}
	return nil
}

// boot starts the kubelet and waits until the node and all pods are ready, with containers that
// started after a given time.
func (s *selfHosted) boot(t *testing.T, since time.Time) {
	t.Helper()
	s.start(t)
	s.requireReady(t, since)
	s.until(t, "the pod of the API server is ready", func() error { return s.podReady("default", "well", since) })
}

// killAll kills the kubelet, the runtime, and all processes of the containers, as a power failure
// does. It then starts the runtime, and returns the time of the kill.
func (s *selfHosted) killAll(t *testing.T) (at time.Time) {
	t.Helper()
	at = time.Now()
	containers := s.containerIDs(t)
	processes := s.processes(t)
	require.NoError(t, s.cmd.Process.Kill())
	for _, pid := range processes {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("kill %d: %v", pid, err)
		}
	}
	s.runtime.Kill(t)
	_ = s.cmd.Wait() // killed
	s.cmd = nil
	s.until(t, "all processes have ended", func() error {
		if left := s.processes(t); len(left) > 0 {
			return fmt.Errorf("processes %v", left)
		}
		return nil
	})
	s.runtime.Start(t)
	t.Logf("killed %d processes of %d containers", len(processes), len(containers))
	return at
}

// processes returns the shims of the node's pods, followed by the processes in the pods' cgroups.
func (s *selfHosted) processes(t *testing.T) (pids []int) {
	t.Helper()
	shims, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	socket := strings.TrimPrefix(s.runtime.Endpoint, "unix://")
	for _, file := range shims {
		text, err := os.ReadFile(file)
		args := strings.Split(string(text), "\x00")
		if err == nil && strings.Contains(filepath.Base(args[0]), "containerd-shim") && slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, socket) }) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	roots, err := filepath.Glob("/sys/fs/cgroup/*/podwright-" + s.name)
	require.NoError(t, err)
	for _, root := range append(roots, "/sys/fs/cgroup/podwright-"+s.name) {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "cgroup.procs" {
				return nil // removed meanwhile
			}
			text, _ := os.ReadFile(path)
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
			return nil
		})
	}
	return pids
}

// expire replaces the current client certificate by an expired one.
func (s *selfHosted) expire(t *testing.T) {
	t.Helper()
	var config struct {
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, s.NodeKubeconfig(t, s.name, -30*time.Second))), &config))
	require.Len(t, config.Users, 1)
	pair := config.Users[0].User
	require.NoError(t, os.WriteFile(s.current(), slices.Concat(pair.Certificate, pair.Key), 0o600))
}

// upgrade replaces the kubelet by another program. No container may end, and the node must not
// become unready.
func (s *selfHosted) upgrade(t *testing.T) {
	t.Helper()
	transition := func() string {
		return s.get(t, "node", s.name, `{.status.conditions[?(@.type=="Ready")].lastTransitionTime}`)
	}
	containers, before := s.containerIDs(t), transition()
	s.stop(t)
	s.upgrades++
	s.binary = filepath.Join(s.dir, fmt.Sprintf("kubelet-%d", s.upgrades))
	program, err := os.ReadFile(kubeletPath(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.binary, program, 0o755))
	s.boot(t, time.Time{})
	require.Equal(t, before, transition(), "the node's last transition")
	require.Equal(t, containers, s.containerIDs(t))
}

// containerIDs returns the running containers of the runtime.
func (s *selfHosted) containerIDs(t *testing.T) map[string]string {
	t.Helper()
	list, err := s.cri.ListContainers(t.Context(), &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}})
	require.NoError(t, err)
	out := map[string]string{}
	for _, c := range list {
		out[c.Metadata.Name] = c.Id
	}
	return out
}

// cleanUp deletes the pod of the API server, then the static pods, and checks for remains.
func (s *selfHosted) cleanUp(t *testing.T) {
	if s.cmd == nil {
		s.start(t)
	}
	defer func() {
		s.kill(t)
		tb.UnmountRoot(t, s.root)
		tb.RemoveCgroups(t, "/podwright-"+s.name)
		if t.Failed() {
			text := read(t, s.output)
			t.Logf("the end of the kubelet's log:\n%s", text[max(0, len(text)-15_000):])
		}
	}()
	_ = s.try("delete", "pod", "well", "--ignore-not-found") // the control plane may have failed
	for _, pod := range slices.Backward(controlPlanePods) {
		require.NoError(t, os.Remove(filepath.Join(s.manifests, pod+".yaml")))
	}
	s.until(t, "the pods have no remains", func() error {
		s.unstick(t)
		left, err := filepath.Glob(s.root + "/pods/*")
		return errors.Join(err, listError("folders", left), listError("cgroups", tb.PodCgroups("/podwright-"+s.name)))
	})
}
