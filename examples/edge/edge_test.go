package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Users copy these files, so they must stay short.
func TestFilesAreShort(t *testing.T) {
	for file, limit := range map[string]int{"main.go": 100, "messages.go": 100, "kubectl.go": 100, "rollout.go": 200} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Less(t, bytes.Count(text, []byte("\n")), limit, file)
	}
}

// edge is the agent in a separate process.
type edge struct {
	t                        *testing.T
	binary, runtime          string
	manifests, root, address string
	args                     []string // optional
	process                  *exec.Cmd
}

func newEdge(t *testing.T, runtime string) *edge {
	dir := t.TempDir()
	e := &edge{
		t: t, runtime: runtime, address: freeAddress(t),
		binary: filepath.Join(dir, "edge"), manifests: filepath.Join(dir, "manifests"), root: filepath.Join(dir, "root"),
	}
	out, err := exec.Command("go", "build", "-o", e.binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.Mkdir(e.manifests, 0o700))
	t.Cleanup(func() {
		if t.Failed() && e.process != nil {
			_, _ = e.process.Process.Kill(), e.process.Wait()
		}
	})
	return e
}

// freeAddress returns a free address for an agent that starts later and more than once. It has a random
// IP where all of 127.0.0.0/8 is local, so that no other process takes the port meanwhile.
func freeAddress(t *testing.T) string {
	ip := net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
	l, err := net.Listen("tcp", ip.String()+":0")
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (e *edge) start() {
	e.process = exec.Command(e.binary, append([]string{"-runtime", e.runtime, "-manifests", e.manifests, "-root", e.root, "-listen", e.address}, e.args...)...)
	e.process.Stdout, e.process.Stderr = e.t.Output(), e.t.Output()
	require.NoError(e.t, e.process.Start())
}

// end sends a signal to the agent and returns the error of its exit.
func (e *edge) end(sig os.Signal) error {
	require.NoError(e.t, e.process.Process.Signal(sig))
	return e.process.Wait()
}

func (e *edge) place(name, manifest string) {
	// Renamed, so that the agent never reads an incomplete manifest.
	tmp := filepath.Join(e.root+".tmp", name)
	require.NoError(e.t, os.MkdirAll(filepath.Dir(tmp), 0o700))
	require.NoError(e.t, os.WriteFile(tmp, []byte(manifest), 0o600))
	require.NoError(e.t, os.Rename(tmp, filepath.Join(e.manifests, name)))
}

// pods returns the pods from the endpoint by name.
func (e *edge) pods() (map[string]v1.Pod, error) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + e.address)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list v1.PodList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, err
	}
	out := map[string]v1.Pod{}
	for _, pod := range list.Items {
		out[pod.Name] = pod
	}
	return out, nil
}

// until waits until check returns nil for the pods.
func (e *edge) until(what string, check func(map[string]v1.Pod) error) {
	e.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var pods map[string]v1.Pod
		if pods, err = e.pods(); err == nil {
			err = check(pods)
		}
		if err == nil {
			return
		}
	}
	require.NoError(e.t, err, what)
}

// mainOf returns the status of the pod's only container.
func mainOf(pods map[string]v1.Pod, name string) (v1.ContainerStatus, error) {
	statuses := pods[name].Status.ContainerStatuses
	if len(statuses) != 1 {
		return v1.ContainerStatus{}, fmt.Errorf("%s: %d container statuses", name, len(statuses))
	}
	return statuses[0], nil
}

func podCount(n int) func(map[string]v1.Pod) error {
	return func(pods map[string]v1.Pod) error {
		if len(pods) != n {
			return fmt.Errorf("%d pods", len(pods))
		}
		return nil
	}
}

func ready(name string, restarts int32) func(map[string]v1.Pod) error {
	return func(pods map[string]v1.Pod) error {
		c, err := mainOf(pods, name)
		if err == nil && (!c.Ready || c.RestartCount != restarts) {
			err = fmt.Errorf("%s: ready %t after %d restarts: %+v", name, c.Ready, c.RestartCount, c.State)
		}
		return err
	}
}

// web has long probe timeouts, so that only results count on a loaded machine.
const web = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: %s
    args: [http, ":8080"]
    startupProbe: {grpc: {port: 8080}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 60}
    livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, timeoutSeconds: 30}
    readinessProbe: {exec: {command: [/testprog, exists, /data/ready]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes:
  - {name: data, hostPath: {path: %s}}
`

const once = `
apiVersion: v1
kind: Pod
metadata: {name: once}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: %s, args: [exit, "7"]}
`

func TestEdge(t *testing.T) {
	images := tb.Images(t)
	for _, rt := range tb.Runtimes(t) {
		t.Run(rt.Name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, rt.Endpoint)
			data := t.TempDir()
			e.place("web.yaml", fmt.Sprintf(web, images.Testprog, data))
			e.place("once.yaml", fmt.Sprintf(once, images.Testprog))
			e.place("bad.yaml", "kind: Pod\nmetadata: {name: bad}\n")
			e.start()
			var first v1.ContainerStatus
			e.until("once has failed, web runs", func(pods map[string]v1.Pod) (err error) {
				if c, err := mainOf(pods, "once-edge"); err != nil || c.State.Terminated == nil || c.State.Terminated.ExitCode != 7 {
					return fmt.Errorf("once: %+v, %w", c.State, err)
				}
				if phase := pods["once-edge"].Status.Phase; phase != v1.PodFailed { // published after the end of its containers was observed
					return fmt.Errorf("once: %s", phase)
				}
				if first, err = mainOf(pods, "web-edge"); err == nil && first.State.Running == nil {
					err = fmt.Errorf("web: %+v", first.State)
				}
				return err
			})
			require.False(t, first.Ready)
			require.NoError(t, os.WriteFile(filepath.Join(data, "ready"), nil, 0o600))
			e.until("web is ready", ready("web-edge", 0))
			e.until("the files have the statuses", func(pods map[string]v1.Pod) error {
				for _, folder := range []string{"", "pods/" + string(pods["web-edge"].UID)} { // the published and the saved statuses
					saved, err := os.ReadFile(filepath.Join(e.root, folder, "status.json"))
					if err != nil || !strings.Contains(string(saved), `"ready":true`) {
						return fmt.Errorf("%s: %v", saved, err)
					}
				}
				return nil
			})

			require.Error(t, e.end(syscall.SIGKILL))
			e.start()
			e.until("the agent responds", func(map[string]v1.Pod) error { return nil })
			for range 30 { // three probe periods
				pods, err := e.pods()
				require.NoError(t, err)
				require.NoError(t, ready("web-edge", 0)(pods), "web stays ready")
				again, err := mainOf(pods, "web-edge")
				require.NoError(t, err)
				require.Equal(t, first.ContainerID, again.ContainerID, "web is not restarted")
				require.Equal(t, v1.PodFailed, pods["once-edge"].Status.Phase, "once is not restarted")
				time.Sleep(100 * time.Millisecond)
			}
			e.reboot(rt)
			e.until("web runs again after the reboot", ready("web-edge", 1))

			require.NoError(t, e.end(syscall.SIGTERM))
			require.NoError(t, os.Remove(filepath.Join(e.manifests, "web.yaml")))
			e.start()
			e.until("web is removed", podCount(1))
			require.NoError(t, os.Remove(filepath.Join(e.manifests, "once.yaml")))
			e.until("once is removed", func(pods map[string]v1.Pod) error {
				folders, err := os.ReadDir(filepath.Join(e.root, "pods"))
				if err == nil && len(pods)+len(folders) > 0 {
					err = errors.New("pods or folders remain")
				}
				return err
			})
			require.NoError(t, e.end(syscall.SIGTERM))
			e.eachSandbox(rt, func(_ *cri.RuntimeClient, id string) { t.Errorf("sandbox %s remains", id) })
		})
	}
}

// reboot simulates a reboot: all sandboxes are stopped, then runtime and agent are restarted.
func (e *edge) reboot(rt tb.Runtime) {
	require.Error(e.t, e.end(syscall.SIGKILL))
	e.eachSandbox(rt, func(client *cri.RuntimeClient, id string) {
		require.NoError(e.t, client.StopPodSandbox(e.t.Context(), id))
	})
	rt.Kill(e.t)
	rt.Start(e.t)
	e.start()
}

func (e *edge) eachSandbox(rt tb.Runtime, do func(client *cri.RuntimeClient, id string)) {
	client, err := cri.DialRuntime(e.t.Context(), cri.ClientConfig{Endpoint: rt.Endpoint})
	require.NoError(e.t, err)
	defer client.Close()
	sandboxes, err := client.ListPodSandbox(e.t.Context(), nil)
	require.NoError(e.t, err)
	for _, s := range sandboxes {
		do(client, s.Id)
	}
}
