package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
)

// clusterFigures measures pods of a real API server, as a watcher of it sees them: this
// kubelet, and with -upstream the upstream one in turn on the same runtime, against bare
// CRI calls and the round trips of a client that does nothing else.
func clusterFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	c, err := newCluster(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	peers := []peer{{"podwright", binary, "healthzPort: 0\n"}}
	if o.upstream {
		path, err := c.control(ctx, "/programs/kubelet")
		if err != nil {
			return err
		}
		peers = append(peers, peer{"upstream", path, "healthzPort: 0\ncgroupDriver: cgroupfs\nfailCgroupV1: false\n"})
	}
	for i, e := range endpoints {
		fmt.Printf("\n%s, pods of the API server\n", e.name)
		b, err := newBare(ctx, e, filepath.Join(dir, fmt.Sprint("bare-", i)), o.image)
		if err != nil {
			return err
		}
		for _, p := range peers {
			if err := c.measure(ctx, p, e, b, filepath.Join(dir, fmt.Sprint(p.name, "-", i)), o); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", p.name, err), b.client.Close())
			}
		}
		b.close()
	}
	return nil
}

// peer is a kubelet to measure, with settings of its own.
type peer struct{ name, binary, settings string }

// cluster is the control plane around the benchmark.
type cluster struct {
	socket string
	admin  *apiserver.Client
	http   *http.Client
}

const benchNamespace = "default"

func newCluster(ctx context.Context) (*cluster, error) {
	folder := os.Getenv("PODWRIGHT_CONTROLPLANE")
	if folder == "" {
		return nil, errors.New("no API server: run it as go run ./examples/testbed -controlplane -- go run ./examples/bench -cluster")
	}
	c := &cluster{socket: filepath.Join(folder, "ctl.sock")}
	c.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
	}}}
	var err error
	c.admin, err = apiserver.New(apiserver.Config{Kubeconfig: os.Getenv("KUBECONFIG"), UserAgent: "bench", Limits: apiserver.Limits{QPS: -1}})
	if err != nil {
		return nil, err
	}
	return c, until(ctx, "pods have a service account", func() error {
		_, err := c.admin.ServiceAccounts(benchNamespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *cluster) close() { c.admin.CloseConnections() }

// until tries again until there is no error.
func until(ctx context.Context, what string, f func() error) error {
	for begin := time.Now(); ; {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Since(begin) > patience {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// control asks the control plane's endpoint.
func (c *cluster) control(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://control"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

// measure takes all figures of a kubelet.
func (c *cluster) measure(ctx context.Context, p peer, e endpoint, b *bare, dir string, o options) error {
	n, err := c.start(ctx, p, e, dir, o.image)
	if err != nil {
		return err
	}
	defer n.stop()
	fmt.Printf(" %s\n", p.name)
	if err := n.single(ctx, b, o.runs); err != nil {
		return err
	}
	return n.burst(ctx, o)
}

// clusterNode is a kubelet that is a node, and what is seen of its pods.
type clusterNode struct {
	*cluster
	name, image string
	cmd         *exec.Cmd
	*watcher
}

// start starts a kubelet and waits until its node is ready.
func (c *cluster) start(ctx context.Context, p peer, e endpoint, dir, image string) (*clusterNode, error) {
	n := &clusterNode{cluster: c, name: fmt.Sprintf("bench-%s-%d", p.name, time.Now().UnixNano()%1e6), image: image}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	q := url.Values{"user": {"system:node:" + n.name}, "group": {"system:nodes"}}
	text, err := c.control(ctx, "/kubeconfig?"+q.Encode())
	if err != nil {
		return nil, err
	}
	kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
	settings := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"containerRuntimeEndpoint: " + e.address + "\npodLogsDir: " + filepath.Join(dir, "logs") + "\n" + p.settings
	if err := errors.Join(os.WriteFile(kubeconfig, []byte(text), 0o600), os.WriteFile(config, []byte(settings), 0o600)); err != nil {
		return nil, err
	}
	args := []string{"--config=" + config, "--kubeconfig=" + kubeconfig, "--root-dir=" + filepath.Join(dir, "root"), "--hostname-override=" + n.name}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	n.cmd = exec.CommandContext(ctx, p.binary, args...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	err = until(ctx, n.name+" is ready", func() error {
		node, err := c.admin.Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(node.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue })
		if i < 0 {
			return fmt.Errorf("%v", node.Status.Conditions)
		}
		return nil
	})
	if err == nil {
		n.watcher, err = c.watch(ctx)
	}
	if err != nil {
		tail, _ := os.ReadFile(log.Name())
		n.stop()
		return nil, fmt.Errorf("%w; its log ends with:\n%s", err, tail[max(0, len(tail)-4000):])
	}
	return n, nil
}

func (n *clusterNode) stop() {
	if n.watcher != nil {
		n.watcher.stop()
	}
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	_ = n.cmd.Wait()
	_ = n.admin.Nodes().Delete(context.Background(), n.name, metav1.DeleteOptions{})
}

// pod is one that ends at once on SIGTERM, bound to the node: no scheduler is measured.
func (n *clusterNode) pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: benchNamespace, Name: n.name + "-" + name},
		Spec: v1.PodSpec{
			NodeName: n.name, TerminationGracePeriodSeconds: new(int64(10)),
			Containers: []v1.Container{{Name: "main", Image: n.image, ImagePullPolicy: v1.PullIfNotPresent, Command: command}},
		},
	}
}

// single measures one pod at a time, and the floor in turn with it.
func (n *clusterNode) single(ctx context.Context, b *bare, runs int) error {
	var ready, gone, floorReady, floorGone []time.Duration
	for i := range runs {
		pod := n.pod(fmt.Sprint("single-", i))
		begin := time.Now()
		if _, err := n.admin.Pods(benchNamespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		at, err := n.await(ctx, pod.Name, podReady)
		if err != nil {
			return err
		}
		ready = append(ready, at.Sub(begin))
		begin = time.Now()
		if err := n.admin.Pods(benchNamespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if at, err = n.await(ctx, pod.Name, isGone); err != nil {
			return err
		}
		gone = append(gone, at.Sub(begin))

		create, patch, remove, err := n.trips(ctx, i)
		if err != nil {
			return err
		}
		begin = time.Now()
		sandbox, err := b.start(ctx)
		started := time.Since(begin)
		if err != nil {
			return err
		}
		begin = time.Now()
		if err := b.client.StopPodSandbox(ctx, sandbox); err != nil {
			return err
		}
		floorReady, floorGone = append(floorReady, create+started+patch), append(floorGone, patch+time.Since(begin)+patch+remove)
		if err := b.client.RemovePodSandbox(ctx, sandbox); err != nil {
			return err
		}
	}
	row("create to Ready, one pod at a time", median(ready), median(floorReady), 1.15)
	row("delete to gone", median(gone), median(floorGone), 1.25)
	return nil
}

// trips are how soon a watcher sees a creation, a patch of a status and a removal: of a pod
// on a node that nobody is.
func (n *clusterNode) trips(ctx context.Context, i int) (create, patch, remove time.Duration, err error) {
	pod := n.pod(fmt.Sprint("trip-", i))
	pod.Spec.NodeName = "nobody"
	pods := n.admin.Pods(benchNamespace)
	timed := func(into *time.Duration, call func() error, seen func(*v1.Pod) bool) {
		begin := time.Now()
		if err == nil {
			err = call()
		}
		var at time.Time
		if err == nil {
			at, err = n.await(ctx, pod.Name, seen)
		}
		*into = at.Sub(begin)
	}
	timed(&create, func() error { _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); return err }, func(p *v1.Pod) bool { return p != nil })
	timed(&patch, func() error {
		_, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
		return err
	}, func(p *v1.Pod) bool { return p != nil && p.Status.Phase == v1.PodRunning })
	timed(&remove, func() error {
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	}, isGone)
	return create, patch, remove, err
}

func isGone(p *v1.Pod) bool { return p == nil }

func podReady(p *v1.Pod) bool {
	return p != nil && slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

// burst measures many pods at once, what the kubelet takes for it, and what at rest.
func (n *clusterNode) burst(ctx context.Context, o options) error {
	before, err := cpuTime(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	begin := time.Now()
	for i := range o.burst {
		if _, err := n.admin.Pods(benchNamespace).Create(ctx, n.pod(fmt.Sprint("burst-", i)), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	var up []time.Duration
	for i := range o.burst {
		at, err := n.await(ctx, n.pod(fmt.Sprint("burst-", i)).Name, podReady)
		if err != nil {
			return err
		}
		up = append(up, at.Sub(begin))
	}
	after, err := cpuTime(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("  %-52s %10s   median %s\n", fmt.Sprintf("%d pods at once: the last is Ready", o.burst), ms(slices.Max(up)), ms(median(up)))
	fmt.Printf("  %-52s %10.1f ms\n", "  CPU of the agent for each", float64(after-before)/1e6/float64(o.burst))
	if err := n.rest(ctx, o); err != nil {
		return err
	}
	begin = time.Now()
	for i := range o.burst {
		if err := n.admin.Pods(benchNamespace).Delete(ctx, n.pod(fmt.Sprint("burst-", i)).Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	for i := range o.burst {
		if _, err := n.await(ctx, n.pod(fmt.Sprint("burst-", i)).Name, isGone); err != nil {
			return err
		}
	}
	fmt.Printf("  %-52s %10s\n", fmt.Sprintf("%d pods deleted at once: all gone", o.burst), ms(time.Since(begin)))
	return nil
}

// rest measures the kubelet while nothing happens.
func (n *clusterNode) rest(ctx context.Context, o options) error {
	if err := sleep(ctx, 5*time.Second); err != nil {
		return err
	}
	before, err := cpuTime(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := sleep(ctx, o.idle); err != nil {
		return err
	}
	after, err := cpuTime(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	m, err := memory(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("  %-52s %10.1f ms per second\n", fmt.Sprintf("%d idle pods: CPU of the agent", o.burst), float64(after-before)/1e6/o.idle.Seconds())
	fmt.Printf("  %-52s %10.1f MiB, of it %.1f anonymous, %.1f file\n", "  resident memory", m["VmRSS"], m["RssAnon"], m["RssFile"])
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
