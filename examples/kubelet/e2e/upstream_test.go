package e2e_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// upstreamVariable is the environment variable with the path of a built upstream kubelet; see
// examples/tools/controlplane/kubelet for the build. Without it the tests that need one are
// skipped.
const upstreamVariable = "PODWRIGHT_UPSTREAM_KUBELET"

// upstream is the upstream kubelet with the folders of a scene.
type upstream struct {
	bin, output string
	args        []string
	port        int // of its API
	proc        *process

	root    string   // becomes a mount point
	cgroups []string // created for it
}

// newUpstream prepares an upstream kubelet; the clean-up kills it. That kubelet ends pods without
// a separate cgroup.
func newUpstream(t *testing.T, s *scene, bin string) *upstream {
	t.Helper()
	u := &upstream{
		bin: bin, output: filepath.Join(s.dir, "upstream.log"),
		port: freePort(t), root: s.root, cgroups: tb.MakeCgroups(t, "/podwright-"+s.node),
	}
	t.Cleanup(func() { u.stop(t, syscall.SIGKILL) })
	noEvictions := map[string]string{}
	for _, signal := range []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"} {
		noEvictions[signal] = "0%"
	}
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": s.endpoint, "staticPodPath": s.manifests, "podLogsDir": s.logs, "fileCheckFrequency": "1s",
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": "/podwright-" + s.node,
		"address": "127.0.0.1", "port": u.port, "healthzPort": 0,
		"authentication":         map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization":          map[string]any{"mode": "AlwaysAllow"},
		"makeIPTablesUtilChains": false, "failSwapOn": false, "evictionHard": noEvictions,
	}
	text, err := json.Marshal(config)
	require.NoError(t, err)
	file := filepath.Join(s.dir, "upstream.json")
	require.NoError(t, os.WriteFile(file, text, 0o644))
	u.args = []string{"--config=" + file, "--root-dir=" + s.root, "--cert-dir=" + filepath.Join(s.dir, "pki"), "--hostname-override=" + s.node, "--v=2"}
	return u
}

func unverified() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

func (u *upstream) start(t *testing.T) {
	t.Helper()
	u.proc = launch(t, exec.Command(u.bin, u.args...), u.output)
}

func (u *upstream) stop(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if u.proc == nil {
		return
	}
	if err := u.proc.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("stop the upstream kubelet: %v", err)
	}
	<-u.proc.done
	u.proc = nil
	if t.Failed() {
		log, _ := os.ReadFile(u.output)
		t.Logf("end of the upstream kubelet's log:\n%s", tail(string(log), 6000))
	}
}

// undo removes the remains of the upstream kubelet after its pods were removed.
func (u *upstream) undo(t *testing.T) {
	tb.UnmountRoot(t, u.root)
	removeCgroups(t, u.cgroups)
}

func removeCgroups(t *testing.T, roots []string) {
	t.Helper()
	for _, root := range roots {
		wait(t, 10*time.Second, root+" is removed", func() error {
			var dirs []string
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			for _, dir := range slices.Backward(dirs) {
				err = errors.Join(err, os.Remove(dir))
			}
			return err
		})
	}
}

// withUpstream runs a test on each runtime with both kubelets.
func withUpstream(t *testing.T, test func(t *testing.T, s *scene, u *upstream)) {
	t.Helper()
	bin := os.Getenv(upstreamVariable)
	if bin == "" {
		t.Skipf("%s is not set to an upstream kubelet", upstreamVariable)
	}
	images := tb.Images(t)
	for _, rt := range tb.Runtimes(t) {
		t.Run(rt.Name, func(t *testing.T) {
			t.TempDir() // its folder is removed last
			var u *upstream
			t.Cleanup(func() {
				if u != nil {
					u.undo(t)
				}
			})
			s := newScene(t, rt, images, options{config: "volumeStatsAggPeriod: 1s\n", endpoint: rt.Endpoint})
			u = newUpstream(t, s, bin)
			test(t, s, u)
		})
	}
}
