package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/testbed/tb"
)

// upstreamVariable names a built upstream kubelet (examples/controlplane/kubelet says
// how to build one). The tests that need it are skipped without.
const upstreamVariable = "PODWRIGHT_UPSTREAM_KUBELET"

// upstream is the upstream kubelet with the folders of a scene.
type upstream struct {
	bin, output string
	args        []string
	port        int // of its API
	proc        *process

	root    string   // which it makes a mount point
	cgroups []string // made for it
}

// newUpstream prepares an upstream kubelet, which is killed when the test ends. It ends
// pods that are in no cgroup of their own.
func newUpstream(t *testing.T, s *scene, bin string) *upstream {
	t.Helper()
	u := &upstream{
		bin: bin, output: filepath.Join(s.dir, "upstream.log"),
		port: freePort(t), root: s.root, cgroups: tb.MakeCgroups(t, "/podwright-"+s.node),
	}
	t.Cleanup(func() { u.end(t, syscall.SIGKILL) })
	nothing := map[string]string{}
	for _, signal := range []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"} {
		nothing[signal] = "0%" // is evicted
	}
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": s.endpoint, "staticPodPath": s.manifests, "podLogsDir": s.logs, "fileCheckFrequency": "1s",
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": "/podwright-" + s.node,
		"address": "127.0.0.1", "port": u.port, "healthzPort": 0,
		"authentication":         map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization":          map[string]any{"mode": "AlwaysAllow"},
		"makeIPTablesUtilChains": false, "failSwapOn": false, "evictionHard": nothing,
	}
	text, err := json.Marshal(config)
	require.NoError(t, err)
	file := filepath.Join(s.dir, "upstream.json")
	require.NoError(t, os.WriteFile(file, text, 0o644))
	u.args = []string{"--config=" + file, "--root-dir=" + s.root, "--cert-dir=" + filepath.Join(s.dir, "pki"), "--hostname-override=" + s.node, "--v=2"}
	return u
}

func (u *upstream) start(t *testing.T) {
	t.Helper()
	out, err := os.OpenFile(u.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command(u.bin, u.args...)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() { defer close(p.done); _ = cmd.Wait() }()
	u.proc = p
}

// end ends it, if it runs.
func (u *upstream) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if u.proc == nil {
		return
	}
	if err := u.proc.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("end the upstream kubelet: %v", err)
	}
	<-u.proc.done
	u.proc = nil
	if t.Failed() {
		log, _ := os.ReadFile(u.output)
		t.Logf("end of the upstream kubelet's log:\n%s", tail(string(log), 6000))
	}
}

// undo takes away what it leaves behind, once its pods are gone.
func (u *upstream) undo(t *testing.T) {
	tb.UnmountRoot(t, u.root)
	removeCgroups(t, u.cgroups)
}

// removeCgroups removes cgroups with all below them.
func removeCgroups(t *testing.T, roots []string) {
	t.Helper()
	for _, root := range roots {
		wait(t, 10*time.Second, root+" goes", func() error {
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

// takeoverPods are pods of many kinds. Their UIDs are in their manifests: without,
// each kubelet makes up its own.
func takeoverPods(s *scene) map[string]*v1.Pod {
	busybox := s.images.Busybox
	always := v1.ContainerRestartPolicyAlways
	sidecar := shell("s0", busybox, "echo side"+untilTerm)
	sidecar.RestartPolicy = &always
	out := map[string]*v1.Pod{
		"plain":   newPod("plain", testprog(s.images.Testprog, "run")),
		"network": newPod("network", shell("main", busybox, "echo one"+untilTerm), shell("other", busybox, untilTerm)),
		"init":    newPod("init", shell("main", busybox, untilTerm)),
		"limits":  newPod("limits", shell("main", busybox, untilTerm)),
		"never":   newPod("never", shell("main", busybox, untilTerm), shell("done", busybox, "exit 0")),
		"dies":    newPod("dies", shell("main", busybox, "echo run; while [ ! -e /tmp/end ]; do sleep 0.1; done; exit 1")),
	}
	for _, name := range []string{"network", "init"} {
		out[name].Spec.HostNetwork = false
	}
	out["network"].Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 8080}}
	out["network"].Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"one"}}}
	out["init"].Spec.InitContainers = []v1.Container{shell("i0", busybox, "exit 0"), sidecar}
	list := v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi"), v1.ResourceCPU: resource.MustParse("200m")}
	out["limits"].Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
	user, no := int64(1234), false
	out["limits"].Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsUser: &user, AllowPrivilegeEscalation: &no}
	out["never"].Spec.RestartPolicy = v1.RestartPolicyNever
	for i, name := range slices.Sorted(maps.Keys(out)) {
		out[name].Namespace = "default"
		out[name].UID = types.UID(fmt.Sprintf("%s-0000-0000-0000-%012d", s.node[1:], i))
	}
	return out
}

// besideUpstream runs a test on each runtime with both kubelets.
func besideUpstream(t *testing.T, test func(t *testing.T, s *scene, u *upstream)) {
	t.Helper()
	bin := os.Getenv(upstreamVariable)
	if bin == "" {
		t.Skipf("%s names no upstream kubelet", upstreamVariable)
	}
	images := tb.Images(t)
	for _, rt := range tb.Runtimes(t) {
		t.Run(rt.Name, func(t *testing.T) {
			t.TempDir() // is removed last of all
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

// allRun waits until those containers of the takeoverPods run that are to, and no
// others any more, and returns a function that tells whether they are still the same.
func allRun(t *testing.T, s *scene) (same func() error) {
	t.Helper()
	want := []string{"dies/main", "init/main", "init/s0", "limits/main", "network/main", "network/other", "never/main", "plain/main"}
	wait(t, time.Minute, "all pods run", func() error {
		w, err := s.look()
		if err == nil && !slices.Equal(want, slices.Sorted(maps.Keys(w.ids()))) {
			err = fmt.Errorf("%s", w)
		}
		return err
	})
	before := s.see(t).ids()
	return func() error {
		w, err := s.look()
		if now := w.ids(); err == nil && !maps.Equal(before, now) {
			err = fmt.Errorf("before %v, now %v", before, now)
		}
		return err
	}
}

// C50: static pods of the upstream kubelet, taken over while they run, and back: no
// container is started again, and what dies counts on.
func TestTakesOverFromUpstream(t *testing.T) {
	besideUpstream(t, func(t *testing.T, s *scene, u *upstream) {
		pods := takeoverPods(s)
		for name, pod := range pods {
			s.place(t, name+".yaml", pod)
		}
		u.start(t)
		same := allRun(t, s)
		u.end(t, syscall.SIGTERM)
		require.NoError(t, same())

		s.start(t)
		for name, pod := range pods {
			if name != "never" { // one of its containers has ended
				require.Equal(t, pod.UID, s.running(t, name).UID)
			}
		}
		hold(t, 15*time.Second, "nothing is started again by us", same)
		s.restarted(t, "dies")

		same = allRun(t, s)
		require.Zero(t, s.terminate(t, 30*time.Second))
		u.start(t)
		hold(t, 20*time.Second, "nothing is started again by the upstream kubelet", same)
		u.end(t, syscall.SIGKILL)
		s.start(t)
		hold(t, 10*time.Second, "nothing is started again after kill -9", same)
	})
}

// restarted ends a pod's container and waits for its second instance, whose log comes
// beside that of the first.
func (s *scene) restarted(t *testing.T, name string) {
	t.Helper()
	first := s.see(t).of(name).running()[0]
	_, _, err := s.cri.ExecSync(t.Context(), first.Id, []string{"touch", "/tmp/end"}, 5*time.Second)
	require.NoError(t, err)
	wait(t, 20*time.Second, name+" has a successor", func() error {
		w, err := s.look()
		if now := w.of(name).running(); err == nil && (len(now) != 1 || now[0].Metadata.Attempt != 1) {
			err = fmt.Errorf("%s", w.of(name))
		}
		return err
	})
	p, err := s.pod(name)
	require.NoError(t, err)
	logs, err := filepath.Glob(filepath.Join(s.logs, "default_"+p.Name+"_"+string(p.UID), "main", "*.log"))
	require.NoError(t, err)
	require.Len(t, logs, 2, "the log of the first is kept: %v", logs)
}

// C50, the other way round: pods of ours, taken over by an upstream kubelet.
func TestUpstreamTakesOver(t *testing.T) {
	besideUpstream(t, func(t *testing.T, s *scene, u *upstream) {
		for name, pod := range takeoverPods(s) {
			s.place(t, name+".yaml", pod)
		}
		s.start(t)
		same := allRun(t, s)
		require.Zero(t, s.terminate(t, 30*time.Second))
		u.start(t)
		hold(t, 20*time.Second, "nothing is started again by the upstream kubelet", same)
		u.end(t, syscall.SIGTERM)
		s.start(t)
		hold(t, 5*time.Second, "nor by us", same)
	})
}
