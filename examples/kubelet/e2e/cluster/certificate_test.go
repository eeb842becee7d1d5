package cluster_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

const wellPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: well}\nspec: {nodeName: NODE, containers: [" + probedContainer + "]}\n"

// A16: a kubelet whose client certificate expires continues, and manages its pods, also across a
// restart. It uses a new certificate without a restart.
func TestCertificateExpires(t *testing.T) {
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		n := newStoppedNode(t, plane, rt, nil)
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
		kubeconfig := filepath.Join(n.dir, "expiring")
		use := func(valid time.Duration) {
			require.NoError(t, os.WriteFile(kubeconfig+".new", []byte(read(t, n.NodeKubeconfig(t, n.name, valid))), 0o600))
			require.NoError(t, os.Rename(kubeconfig+".new", kubeconfig))
		}
		use(15 * time.Second)
		n.args = append(n.args[:len(n.args):len(n.args)], "--kubeconfig="+kubeconfig)
		n.start(t)
		time.Sleep(20 * time.Second)
		require.Contains(t, read(t, n.output), "the client certificate has expired")
		n.kill(t)
		n.start(t)
		time.Sleep(5 * time.Second)
		require.Equal(t, before, n.ids(t), "pods continue")
		require.NoError(t, os.WriteFile(filepath.Join(n.dir, "end"), nil, 0o600))
		use(time.Hour)
		n.waitField(t, "pod", "ends", "{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}", "Failed 7")
		require.Equal(t, before["well/c"], n.ids(t)["well/c"])
		w.requireUndisturbed(t, func(pod *v1.Pod) bool { return pod.Name == "well" })
	})
}
