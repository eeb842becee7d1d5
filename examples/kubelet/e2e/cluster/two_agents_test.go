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
	b := n.standBy(t)
	first := n.ids(t)[b.pod+"/c"]
	twin := n.twin(t, runtimes[1])
	twin.start(t)
	const says = "another agent seems to use the name of this node"
	n.until(t, "both agents log the conflict", func() error {
		var errs []error
		for _, agent := range []*node{n, twin} {
			if !strings.Contains(read(t, agent.output), says) {
				errs = append(errs, errors.New(agent.output))
			}
		}
		return errors.Join(errs...)
	})
	n.until(t, "the second agent runs the pod, too", func() error {
		if twin.ids(t)[b.pod+"/c"] == "" {
			return errors.New("no container")
		}
		return nil
	})
	twin.kill(t)
	n.becomes(t, "pod", b.pod, "{.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}", "containerd://"+first+" 0")
	n.ready(t, b.pod)
	require.Equal(t, first, n.ids(t)[b.pod+"/c"])

	twin.start(t)
	n.do(t, "delete", "daemonset", "bystander")
	n.until(t, "both runtimes are empty", func() error { return errors.Join(n.empty(), twin.empty()) })
	twin.kill(t)
}

// twin returns a second agent for the node.
func (n *node) twin(t *testing.T, rt tb.Runtime) *node {
	t.Helper()
	twin := *n
	var err error
	twin.cri, err = cri.DialRuntime(t.Context(), cri.ClientConfig{Endpoint: rt.Endpoint})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, twin.cri.Close()) })
	twin.dir, twin.cmd = t.TempDir(), nil
	twin.root, twin.output = filepath.Join(twin.dir, "root"), filepath.Join(twin.dir, "kubelet.log")
	config := filepath.Join(twin.dir, "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 100Mi}\npodLogsDir: "+twin.dir+"/logs\n"), 0o600))
	twin.args = append(append([]string(nil), n.args...), "--config="+config, "--root-dir="+twin.root, "--container-runtime-endpoint="+rt.Endpoint, "--port="+freePort(t))
	t.Cleanup(func() {
		if twin.cmd != nil {
			twin.kill(t)
		}
		tb.UnmountRoot(t, twin.root)
		if t.Failed() {
			t.Logf("the log of the second agent:\n%s", read(t, twin.output))
		}
	})
	return &twin
}
