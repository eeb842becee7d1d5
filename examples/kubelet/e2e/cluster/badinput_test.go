package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each pod with odd, oversized or malicious input reports why it cannot run and affects no other
// pod. Afterwards the Node is deleted under the running agent.
func TestBadInput(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		b := n.newBystander(t)
		n.runParallel(t, nodeTests{
			"no containers": noContainers,
			"long names":    longNames,
			"big":           bigObjects,
		})
		b.requireUndisturbed(t)
		nodeDeleted(t, n)
		b.requireUndisturbed(t)
	}, "--register-with-taints=example.com/new:NoSchedule", "--node-labels=example.com/room=3")
}

// requireRejected creates an object that the server must reject with the reason why.
func (n *node) requireRejected(t *testing.T, yaml, why string) {
	t.Helper()
	_, err := n.run([]byte(yaml), "create", "-f", "-")
	require.ErrorContains(t, err, why)
}

// The server rejects a pod without containers, and the agent rejects such a manifest, naming the
// field.
func noContainers(t *testing.T, n *node) {
	const empty = "{apiVersion: v1, kind: Pod, metadata: {name: empty}, spec: {containers: []}}"
	n.requireRejected(t, empty, "spec.containers: Required value")
	file := filepath.Join(n.manifests, "empty.yaml")
	require.NoError(t, os.WriteFile(file, []byte(empty), 0o600))
	n.until(t, "the agent logs the invalid field", func() error {
		for line := range strings.Lines(read(t, n.output)) {
			if strings.Contains(line, "empty.yaml") && strings.Contains(line, "spec.containers") {
				return nil
			}
		}
		return errors.New("no such line in the log")
	})
	require.NoError(t, os.Remove(file))
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// A name may have 253 characters, and a log folder, which contains namespace, name and UID, 255. A
// pod that just fits runs, with the first 63 characters as its host name. A longer name is
// reported, and the pod can be deleted.
func longNames(t *testing.T, n *node) {
	const uid = 36
	longest := strings.Repeat("n", 255-len(n.namespace)-uid-len("__"))
	tooLong := strings.Repeat("m", 253)
	for _, name := range []string{longest, tooLong} {
		n.apply(t, podManifest(name+`, labels: {app: `+name[:63]+`}`, `
  nodeName: NODE
  containers: [{image: BUSYBOX, name: `+strings.Repeat("c", 63)+`, command: [sleep, "3600"]}]
  terminationGracePeriodSeconds: 1`))
	}
	n.ready(t, longest)
	require.Equal(t, longest[:63]+"\n", n.exec(t, longest+"/"+strings.Repeat("c", 63), "hostname"))
	n.until(t, "an event reports the long name", func() error {
		if got := n.do(t, "describe", "pod", tooLong); !strings.Contains(got, "FailedCreatePodSandBox") || !strings.Contains(got, "file name too long") {
			return errors.New(got)
		}
		return nil
	})
	n.do(t, "delete", "pod", longest, tooLong)
}

// Objects have the largest size that the server accepts.
func bigObjects(t *testing.T, n *node) {
	pod := func(name, annotation, env string) string {
		return strings.NewReplacer("NODE", n.name, "BUSYBOX", n.images.Busybox).Replace(podManifest(name+`, annotations: {a: "`+annotation+`"}`, `
  nodeName: NODE
  containers: [{image: BUSYBOX, name: c, command: [sleep, "3600"], env: [{name: BIG, value: "`+env+`"}], volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, configMap: {name: big, optional: true}}]
  terminationGracePeriodSeconds: 1`))
	}
	much := func(size int) string { return strings.Repeat("x", size) }
	n.requireRejected(t, pod("refused", much(1<<20), ""), "may not be more than 262144 bytes")
	n.requireRejected(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: refused}, data: {a: "+much(1<<20+1)+"}}", "may not be more than 1048576 bytes")
	for _, yaml := range []string{
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: big}, data: {a: " + much(1<<20-1) + "}}",
		pod("big", much(1<<18-1), much(100<<10)),
		pod("too-big", much(1<<18-1), much(200<<10)), // one variable is limited to 128 KiB
	} {
		_, err := n.run([]byte(yaml), "create", "-f", "-")
		require.NoError(t, err)
	}
	n.ready(t, "big")
	require.Equal(t, fmt.Sprintln(100<<10, 1<<20-1), n.exec(t, "big/c", "sh", "-c", `echo ${#BIG} $(cat /v/a | wc -c)`))
	n.waitMatch(t, "pod", "too-big", "{.status.containerStatuses[0].state} {.status.containerStatuses[0].lastState}", func(got string) bool {
		return strings.Contains(got, "CreateContainerConfigError") && strings.Contains(got, "more than 131070 bytes")
	})
}

// A deleted Node is registered again with its labels and taints, and its pods continue.
func nodeDeleted(t *testing.T, n *node) {
	const given = `{.metadata.labels.example\.com/room} {.spec.taints[?(@.key=="example.com/new")].effect}`
	require.Equal(t, "3 NoSchedule", n.get(t, "node", n.name, given))
	before, was := n.ids(t), n.get(t, "node", n.name, "{.metadata.uid}")
	n.do(t, "delete", "node", n.name)
	n.waitMatch(t, "node", n.name, "{.metadata.uid}", func(uid string) bool { return uid != "" && uid != was })
	n.nodeReady(t)
	require.Equal(t, "3 NoSchedule", n.get(t, "node", n.name, given))
	n.until(t, "the new Node owns the lease", func() error {
		return same(n.get(t, "node", n.name, "{.metadata.uid}"),
			n.do(t, "get", "lease", n.name, "--namespace=kube-node-lease", "-o", "jsonpath={.metadata.ownerReferences[0].uid}"))
	})
	now := n.ids(t)
	for container, id := range before {
		if !strings.HasPrefix(container, "too-big/") {
			require.Equal(t, id, now[container], container)
		}
	}
	require.NotEmpty(t, before)
}
