package cluster_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// Two agents with one node name, each with a separate runtime and root folder, both report the
// conflict, and the pods of the first one continue.
func TestTwoAgents(t *testing.T) {
	runtimes := tb.Runtimes(t)
	n := newNode(t, controlplane.Of(t), runtimes[0])
	b := n.newBystander(t)
	first := n.ids(t)[b.pod+"/c"]
	second := n.secondAgent(t, runtimes[1])
	second.start(t)
	const conflict = "another agent seems to use the name of this node"
	n.until(t, "both agents log the conflict", func() error {
		var errs []error
		for _, agent := range []*node{n, second} {
			if !strings.Contains(read(t, agent.output), conflict) {
				errs = append(errs, errors.New(agent.output))
			}
		}
		return errors.Join(errs...)
	})
	n.until(t, "the second agent runs the pod, too", func() error {
		if second.ids(t)[b.pod+"/c"] == "" {
			return errors.New("no container")
		}
		return nil
	})
	second.kill(t)
	n.waitField(t, "pod", b.pod, "{.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}", "containerd://"+first+" 0")
	n.ready(t, b.pod)
	require.Equal(t, first, n.ids(t)[b.pod+"/c"])

	second.start(t)
	n.do(t, "delete", "daemonset", "bystander")
	n.until(t, "both runtimes are empty", func() error { return errors.Join(n.empty(), second.empty()) })
	second.kill(t)
}

// secondAgent returns a second agent for the node.
func (n *node) secondAgent(t *testing.T, rt tb.Runtime) *node {
	t.Helper()
	second := *n
	var err error
	second.cri, err = cri.DialRuntime(t.Context(), cri.ClientConfig{Endpoint: rt.Endpoint})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.cri.Close()) })
	second.dir, second.cmd = t.TempDir(), nil
	second.root, second.output = filepath.Join(second.dir, "root"), filepath.Join(second.dir, "kubelet.log")
	config := filepath.Join(second.dir, "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 100Mi}\npodLogsDir: "+second.dir+"/logs\n"), 0o600))
	second.args = append(append([]string(nil), n.args...), "--config="+config, "--root-dir="+second.root, "--container-runtime-endpoint="+rt.Endpoint, "--port="+freePort(t))
	t.Cleanup(func() {
		if second.cmd != nil {
			second.kill(t)
		}
		tb.UnmountRoot(t, second.root)
		if t.Failed() {
			t.Logf("the log of the second agent:\n%s", read(t, second.output))
		}
	})
	return &second
}
