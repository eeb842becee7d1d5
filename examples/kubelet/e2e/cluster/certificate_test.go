package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/testbed/tb"
	"github.com/podwright/podwright/examples/testbed/tb/controlplane"
)

const wellPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: well}\nspec: {nodeName: NODE, containers: [" + probed + "]}\n"

// A16: a client certificate that expires ends the kubelet, with one line that says why. Its
// pods run on, a kubelet does not begin with it, and one with another certificate manages
// them.
func TestCertificateExpires(t *testing.T) {
	const valid = 30 * time.Second
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		n := notStarted(t, plane, rt, nil)
		lasting := n.args
		expiring := append(lasting[:len(lasting):len(lasting)], "--kubeconfig="+n.NodeKubeconfig(t, n.name, valid))
		begun := time.Now()
		n.args = expiring
		n.start(t)
		n.nodeReady(t)
		w := n.watchPods(t)
		n.apply(t, wellPod+"---\napiVersion: v1\nkind: Pod\nmetadata: {name: ends}\nspec:\n  nodeName: NODE\n  restartPolicy: Never\n"+
			"  containers: [{name: c, image: BUSYBOX, command: [sh, -c, 'while ! test -e /h/end; do sleep 0.1; done; exit 7'], volumeMounts: [{name: h, mountPath: /h}]}]\n"+
			"  volumes: [{name: h, hostPath: {path: "+n.dir+"}}]\n")
		n.ready(t, "well")
		n.ready(t, "ends")
		before := n.ids(t)
		require.Less(t, time.Since(begun), valid, "the machine is too slow for this test")
		var exit *exec.ExitError
		require.ErrorAs(t, n.cmd.Wait(), &exit)
		n.cmd = nil
		require.Equal(t, 1, exit.ExitCode())
		last := n.lastLine(t)
		require.Contains(t, last, "the client certificate has expired")
		require.Equal(t, before, n.ids(t), "pods run on")

		out, err := exec.Command(kubeletPath(t), expiring...).CombinedOutput()
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode(), "%s", out)
		require.Contains(t, string(out), "the client certificate has expired")

		require.NoError(t, os.WriteFile(filepath.Join(n.dir, "end"), nil, 0o600))
		n.args = lasting
		n.start(t)
		n.until(t, "what has ended is told", func() error {
			if got := n.get(t, "pod", "ends", "{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}"); got != "Failed 7" {
				return errors.New(got)
			}
			return nil
		})
		require.Equal(t, before["well/c"], n.ids(t)["well/c"])
		w.requireUnharmed(t, func(pod *v1.Pod) bool { return pod.Name == "well" })
	})
}

// lastLine is what the kubelet has logged last.
func (n *node) lastLine(t *testing.T) string {
	data, err := os.ReadFile(n.output)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}

// A kubeconfig that gets another address, and another certificate, is followed by the
// running kubelet: its watch of pods is away for a second at most after the old one has
// ended, and no pod notices.
func TestKubeconfigChanges(t *testing.T) {
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		n, p := behindProxy(t, plane, rt)
		w := n.watchPods(t)
		n.apply(t, wellPod)
		n.ready(t, "well")
		before, pid := n.ids(t), n.cmd.Process.Pid
		file := strings.TrimPrefix(n.flag("--kubeconfig="), "--kubeconfig=")
		for _, change := range []struct{ what, url string }{
			{"another address", strings.Replace(p.URL, "127.0.0.1", "localhost", 1)},
			{"another certificate", strings.Replace(p.URL, "127.0.0.1", "localhost", 1)},
		} {
			old := p.podWatches()
			n.URL = change.url
			next := n.NodeKubeconfig(t, n.name, 0)
			data, err := os.ReadFile(next)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file+".new", data, 0o600))
			require.NoError(t, os.Rename(file+".new", file))
			n.until(t, change.what+" is used, and the old one no more", func() error {
				now := p.podWatches()
				if len(now) == len(old) || now[len(old)-1].ended.IsZero() {
					return fmt.Errorf("%d watches, of %d before", len(now), len(old))
				}
				return nil
			})
			now := p.podWatches()
			was, is := now[len(old)-1], now[len(old)]
			require.NotEqual(t, was.host+" "+was.serial, is.host+" "+is.serial)
			require.Less(t, is.begun.Sub(was.ended), time.Second, "without a watch")
			t.Logf("%s: without a watch for %s", change.what, is.begun.Sub(was.ended))
			time.Sleep(time.Second)
		}
		n.apply(t, strings.Replace(wellPod, "name: well", "name: later", 1))
		n.ready(t, "later")
		require.Equal(t, pid, n.cmd.Process.Pid)
		require.NoError(t, n.cmd.Process.Signal(syscall.Signal(0)), "it is the same process")
		require.Equal(t, before["well/c"], n.ids(t)["well/c"])
		w.requireUnharmed(t, func(pod *v1.Pod) bool { return pod.Name == "well" })
	})
}

// flag is the last argument that begins so.
func (n *node) flag(prefix string) (value string) {
	for _, arg := range n.args {
		if strings.HasPrefix(arg, prefix) {
			value = arg
		}
	}
	return value
}

// A kubeconfig that is wrong ends the start with one line, which names the part.
func TestKubeconfigsThatCannotBeUsed(t *testing.T) {
	plane := controlplane.Of(t)
	dir := t.TempDir()
	good, err := os.ReadFile(plane.NodeKubeconfig(t, "nobody", 0))
	require.NoError(t, err)
	for want, change := range map[string]func(string) string{
		"is empty":        func(string) string { return "" },
		"server":          func(s string) string { return strings.ReplaceAll(s, plane.URL, "gopher") },
		"current-context": func(s string) string { return strings.ReplaceAll(s, "current-context", "former-context") },
		"client-key":      func(s string) string { return strings.ReplaceAll(s, "client-key-data", "former-key-data") },
	} {
		t.Run(want, func(t *testing.T) {
			file := filepath.Join(dir, "kubeconfig")
			text := change(string(good))
			require.NotEqual(t, string(good), text)
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			config := filepath.Join(dir, "config.yaml")
			require.NoError(t, os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\npodLogsDir: "+dir+"/logs\n"), 0o600))
			out, err := exec.Command(kubeletPath(t), "--config="+config, "--root-dir="+dir+"/root", "--healthz-port=0", "--hostname-override=nobody", "--fail-cgroupv1=false",
				"--container-runtime-endpoint=unix://"+dir+"/none.sock", "--kubeconfig="+file).CombinedOutput()
			var exit *exec.ExitError
			tb.UnmountRoot(t, filepath.Join(dir, "root"))
			require.ErrorAs(t, err, &exit)
			require.Equal(t, 1, exit.ExitCode())
			var lines []string
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "level=ERROR") {
					lines = append(lines, line)
				}
			}
			require.Len(t, lines, 1, "%s", out)
			require.Contains(t, lines[0], file)
			require.Contains(t, lines[0], want)
		})
	}
}
