package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
)

// command is the command of every container of the benchmark. It sleeps, and exits at once on
// SIGTERM.
var command = []string{"/testprog", "run"}

// Periods of reading /pods. They bound the precision of the figures, and each read costs the agent
// CPU time.
const (
	pollOne  = 8 * time.Millisecond
	pollMany = 50 * time.Millisecond
)

const waitTimeout = 5 * time.Minute

type agent struct {
	cmd       *exec.Cmd
	manifests string
	url       string
	image     string
	log       string
	http      *http.Client
}

func build(ctx context.Context, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", binary, "./examples/kubelet")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

func startAgent(ctx context.Context, binary string, e endpoint, dir, image string, flags ...string) (*agent, error) {
	return startPeer(ctx, peer{binary: binary, settings: ownSettings}, e, dir, image, flags...)
}

// startPeer starts a kubelet that runs the manifests of a folder.
func startPeer(ctx context.Context, p peer, e endpoint, dir, image string, flags ...string) (*agent, error) {
	a := &agent{manifests: filepath.Join(dir, "manifests"), image: image, log: filepath.Join(dir, "log"), http: &http.Client{}}
	if err := os.MkdirAll(a.manifests, 0o755); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	err = os.WriteFile(config, fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
podLogsDir: %s
%s`, filepath.Join(dir, "pods"), p.settings), 0o644)
	if err != nil {
		return nil, err
	}
	a.url = "http://127.0.0.1:" + strconv.Itoa(port)
	a.cmd = exec.CommandContext(ctx, p.binary, append(flags, "--config="+config, "--container-runtime-endpoint="+e.address,
		"--pod-manifest-path="+a.manifests, "--root-dir="+filepath.Join(dir, "root"), "--hostname-override=bench",
		"--read-only-port="+strconv.Itoa(port), "--healthz-port=0")...)
	a.cmd.Cancel = func() error { return a.cmd.Process.Signal(syscall.SIGTERM) }
	if err := launch(a.cmd, a.log); err != nil {
		return nil, err
	}
	return a, a.await(ctx, pollMany, "healthy", func() bool {
		resp, err := a.http.Get(a.url + "/healthz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// launch starts a command whose output goes to a file.
func launch(cmd *exec.Cmd, file string) error {
	log, err := os.Create(file)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	return cmd.Start()
}

// withLog adds the end of a kubelet's log to an error.
func withLog(err error, file string) error {
	log, _ := os.ReadFile(file)
	return fmt.Errorf("%w; the kubelet's log ends with:\n%s", err, log[max(0, len(log)-4000):])
}

func (a *agent) stop() {
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	_ = a.cmd.Wait()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// add writes the manifest of a pod atomically.
func (a *agent) add(name string) error { return a.addWith(name, "") }

// addWith is add with another field of the container, in YAML's flow style.
func (a *agent) addWith(name, field string) error {
	if field != "" {
		field = ", " + field
	}
	return a.write(name, a.manifest(name, "containers: [{%s"+field+"}]"))
}

func (a *agent) write(name, manifest string) error {
	tmp := filepath.Join(a.manifests, "."+name)
	if err := os.WriteFile(tmp, []byte(manifest), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, a.file(name))
}

func (a *agent) remove(name string) error { return os.Remove(a.file(name)) }

func (a *agent) file(name string) string { return filepath.Join(a.manifests, name+".yaml") }

// pods returns the pods of /pods by the names in their manifests.
func (a *agent) pods() (map[string]v1.Pod, error) {
	resp, err := a.http.Get(a.url + "/pods")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/pods: %s", resp.Status) // 503: the agent has not synced yet
	}
	var list v1.PodList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, err
	}
	pods := map[string]v1.Pod{}
	for _, p := range list.Items {
		pods[strings.TrimSuffix(p.Name, "-bench")] = p
	}
	return pods, nil
}

func isRunning(p v1.Pod) bool {
	return p.Status.Phase == v1.PodRunning && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil
}

// await polls until done returns true, for at most waitTimeout.
func (a *agent) await(ctx context.Context, poll time.Duration, condition string, done func() bool) error {
	err := await(ctx, poll, condition, done)
	if err != nil {
		err = withLog(err, a.log)
	}
	return err
}

func await(ctx context.Context, poll time.Duration, condition string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", condition, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// awaitPods polls /pods until done returns true.
func (a *agent) awaitPods(ctx context.Context, poll time.Duration, condition string, done func(map[string]v1.Pod) bool) error {
	return a.await(ctx, poll, condition, func() bool {
		pods, err := a.pods()
		return err == nil && done(pods)
	})
}

// runs adds a pod with a spec and waits until it runs.
func (a *agent) runs(ctx context.Context, name, spec string) error {
	if err := a.write(name, a.manifest(name, spec)); err != nil {
		return err
	}
	return a.awaitPods(ctx, pollOne, name+" runs", func(pods map[string]v1.Pod) bool { return isRunning(pods[name]) })
}

// ends removes a pod and waits until /pods no longer lists it.
func (a *agent) ends(ctx context.Context, name string) error {
	if err := a.remove(name); err != nil {
		return err
	}
	return a.awaitPods(ctx, pollOne, name+" is absent", func(pods map[string]v1.Pod) bool { _, there := pods[name]; return !there })
}

func (a *agent) allGone(ctx context.Context) error {
	return a.awaitPods(ctx, pollMany, "no pods remain", func(pods map[string]v1.Pod) bool { return len(pods) == 0 })
}

// allEnd removes n pods and waits until /pods is empty.
func (a *agent) allEnd(ctx context.Context, n int, name func(i int) string) error {
	for i := range n {
		if err := a.remove(name(i)); err != nil {
			return err
		}
	}
	return a.allGone(ctx)
}
