package cluster_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// kubectl top shows the usage of nodes and pods, through a metrics server that reads it from the
// kubelets (A27).
func TestTop(t *testing.T) {
	serveMetrics(t)
	onNodes(t, func(t *testing.T, n *node) {
		n.apply(t, boundPod("busy", `
  containers:
  - {name: c, image: BUSYBOX, command: [sh, -c, 'while :; do :; done'], resources: {limits: {cpu: 300m}}}`)+boundPod("large", `
  containers:
  - {name: c, image: BUSYBOX, command: [sh, -c, 'dd if=/dev/zero of=/dev/shm/x bs=1M count=40; sleep 3600']}`))
		n.ready(t, "busy")
		n.ready(t, "large")
		n.until(t, "kubectl top pod", func() error {
			busy, err := n.top("pod", "busy")
			if err != nil {
				return err
			}
			large, err := n.top("pod", "large")
			if err != nil {
				return err
			}
			// Its actual share of its quota depends on the machine.
			if busy.cpu < 5 || busy.cpu > 330 || large.cpu > 100 || large.memory < 40 || large.memory > 60 {
				return fmt.Errorf("busy %+v, large %+v", busy, large)
			}
			return nil
		})
		n.until(t, "kubectl top node", func() error {
			all, err := n.top("node", n.name)
			if err == nil && (all.cpu < 5 || all.memory < 40) {
				err = fmt.Errorf("%+v", all)
			}
			return err
		})
	})
}

// topFigures has the figures of kubectl top: millicores and MiB.
type topFigures struct{ cpu, memory int }

func (n *node) top(kind, name string) (u topFigures, err error) {
	out, err := n.run(nil, "top", kind, name, "--no-headers")
	if err != nil {
		return u, err
	}
	fields := strings.Fields(out) // for nodes, percentages are between them
	if len(fields) < 3 || fields[0] != name {
		return u, fmt.Errorf("%q", out)
	}
	amounts := fields[1:3]
	if kind == "node" {
		amounts = []string{fields[1], fields[3]}
	}
	if u.cpu, err = strconv.Atoi(strings.TrimSuffix(amounts[0], "m")); err != nil {
		return u, err
	}
	u.memory, err = strconv.Atoi(strings.TrimSuffix(amounts[1], "Mi"))
	return u, err
}

// serveMetrics runs a metrics server beside the control plane, which reaches it through a service
// on this machine. The API server's requests to it are unauthenticated, so that unauthenticated
// users get the right to read.
func serveMetrics(t *testing.T) {
	t.Helper()
	plane, port, dir := controlplane.Of(t), freePort(t), t.TempDir()
	server := exec.Command(plane.Program(t, "metrics-server"),
		"--kubeconfig="+plane.Kubeconfig, "--authentication-kubeconfig="+plane.Kubeconfig, "--authorization-kubeconfig="+plane.Kubeconfig,
		"--secure-port="+port, "--cert-dir="+filepath.Join(dir, "certs"), "--kubelet-insecure-tls", "--kubelet-use-node-status-port",
		"--kubelet-preferred-address-types=InternalIP", "--metric-resolution=10s", "--kubelet-request-timeout=9s")
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	n := &node{Handle: plane, kubectl: plane.Program(t, "kubectl"), namespace: "kube-system"}
	objects := strings.ReplaceAll(`
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost, ports: [{port: PORT}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-of-all}
rules:
- {apiGroups: [metrics.k8s.io], resources: ['*'], verbs: [get, list]}
- {nonResourceURLs: ['*'], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-of-all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-of-all}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:unauthenticated'}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec: {service: {name: metrics-server, namespace: kube-system, port: PORT}, group: metrics.k8s.io, version: v1beta1, insecureSkipTLSVerify: true, groupPriorityMinimum: 100, versionPriority: 100}
`, "PORT", port)
	n.apply(t, objects)
	t.Cleanup(func() {
		_, err := n.run([]byte(objects), "delete", "--ignore-not-found", "-f", "-")
		require.NoError(t, err)
	})
}
