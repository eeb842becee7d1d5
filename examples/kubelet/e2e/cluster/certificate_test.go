package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

const wellPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: well}\nspec: {nodeName: NODE, containers: [" + probedContainer + "]}\n"

// A16: when its client certificate expires, the kubelet ends with one line that names the reason.
// Its pods continue. A kubelet does not start with that certificate, and one with a new certificate
// manages the pods.
func TestCertificateExpires(t *testing.T) {
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		n := newStoppedNode(t, plane, rt, nil)
		lasting := n.args
		n.start(t)
		n.nodeReady(t)
		w := n.watchPods(t)
		n.apply(t, wellPod+"---\napiVersion: v1\nkind: Pod\nmetadata: {name: ends}\nspec:\n  nodeName: NODE\n  restartPolicy: Never\n"+
			"  containers: [{name: c, image: BUSYBOX, command: [sh, -c, 'while ! test -e /h/end; do sleep 0.1; done; exit 7'], volumeMounts: [{name: h, mountPath: /h}]}]\n"+
			"  volumes: [{name: h, hostPath: {path: "+n.dir+"}}]\n")
		n.ready(t, "well")
		n.ready(t, "ends")
		before := n.ids(t)
		n.kill(t)
		expiring := append(lasting[:len(lasting):len(lasting)], "--kubeconfig="+n.NodeKubeconfig(t, n.name, 15*time.Second))
		n.args = expiring
		n.start(t)
		var exit *exec.ExitError
		require.ErrorAs(t, n.cmd.Wait(), &exit)
		n.cmd = nil
		require.Equal(t, 1, exit.ExitCode())
		lines := strings.Split(strings.TrimSpace(read(t, n.output)), "\n")
		require.Contains(t, lines[len(lines)-1], "the client certificate has expired")
		require.Equal(t, before, n.ids(t), "pods continue")

		out, err := exec.Command(kubeletPath(t), expiring...).CombinedOutput()
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode(), "%s", out)
		require.Contains(t, string(out), "the client certificate has expired")

		require.NoError(t, os.WriteFile(filepath.Join(n.dir, "end"), nil, 0o600))
		n.args = lasting
		n.start(t)
		n.waitField(t, "pod", "ends", "{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}", "Failed 7")
		require.Equal(t, before["well/c"], n.ids(t)["well/c"])
		w.requireUndisturbed(t, func(pod *v1.Pod) bool { return pod.Name == "well" })
	})
}
