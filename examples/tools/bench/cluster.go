package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
)

// clusterFigures measures pods of a real API server, as a watcher of it sees them. It measures
// this kubelet and then, with -upstream, the upstream one on the same runtime, and compares them
// with bare CRI calls and bare API requests. The bare calls come first, because the upstream
// kubelet stops the sandboxes of all pods that it does not manage.
func clusterFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	return onCluster(ctx, endpoints, binary, "", o, func(c *cluster, t *table, all []peer, i int, e endpoint) error {
		floor, err := c.floor(ctx, e, filepath.Join(dir, fmt.Sprint("bare-", i)), o)
		if err != nil {
			return fmt.Errorf("floor: %w", err)
		}
		t.put("floor", rowReady, ms(floor.ready))
		t.put("floor", rowGone, ms(floor.gone))
		for _, p := range all {
			if err := c.measure(ctx, t, p, e, floor, filepath.Join(dir, fmt.Sprint(p.name, "-", i)), o); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	})
}

// onCluster fills and prints a table for each runtime. own is added to the settings of this kubelet.
func onCluster(ctx context.Context, endpoints []endpoint, binary, own string, o options, take func(c *cluster, t *table, all []peer, i int, e endpoint) error) error {
	all, err := peers(ctx, binary, o)
	if err != nil {
		return err
	}
	all[0].settings += own
	c, err := newCluster(ctx)
	if err != nil {
		return err
	}
	defer c.admin.CloseConnections()
	for i, e := range endpoints {
		var t table
		if err := take(c, &t, all, i, e); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		t.print(e.name)
	}
	return nil
}

const (
	rowReady = "create to Ready, one pod at a time"
	rowGone  = "delete to gone, one pod at a time"
)

type cluster struct{ admin *apiserver.Client }

const benchNamespace = "default"

func newCluster(ctx context.Context) (*cluster, error) {
	if _, err := controlRequest(ctx, "/"); err != nil {
		return nil, err
	}
	admin, err := apiserver.New(apiserver.Config{Kubeconfig: os.Getenv("KUBECONFIG"), UserAgent: "bench", Limits: apiserver.Limits{QPS: -1}})
	if err != nil {
		return nil, err
	}
	c := &cluster{admin}
	return c, until(ctx, "pods have a service account", func() error {
		_, err := c.admin.ServiceAccounts(benchNamespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// until retries f until it succeeds, for at most waitTimeout.
func until(ctx context.Context, condition string, f func() error) error {
	for begin := time.Now(); ; {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Since(begin) > waitTimeout {
			return fmt.Errorf("wait until %s: %w", condition, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *cluster) measure(ctx context.Context, t *table, p peer, e endpoint, floor startAndEnd, dir string, o options) error {
	n, err := c.start(ctx, p, e, dir, o.image)
	if err != nil {
		return err
	}
	defer n.stop()
	one, err := n.single(ctx, o.runs)
	if err != nil {
		return err
	}
	t.put(p.name, rowReady, times(one.ready, floor.ready))
	t.put(p.name, rowGone, times(one.gone, floor.gone))
	return n.burst(ctx, func(row, value string) { t.put(p.name, row, value) }, o)
}

// clusterNode is a kubelet registered as a node, with a watcher of its pods.
type clusterNode struct {
	*cluster
	name, image string
	port        int
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
	text, err := controlRequest(ctx, "/kubeconfig?"+q.Encode())
	if err != nil {
		return nil, err
	}
	kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
	settings := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"healthzPort: 0\nclusterDNS: [192.0.2.53]\ncontainerRuntimeEndpoint: " + e.address + "\npodLogsDir: " + filepath.Join(dir, "logs") + "\n" + p.settings
	if err := errors.Join(os.WriteFile(kubeconfig, []byte(text), 0o600), os.WriteFile(config, []byte(settings), 0o600)); err != nil {
		return nil, err
	}
	if n.port, err = freePort(); err != nil {
		return nil, err
	}
	args := []string{"--port=" + strconv.Itoa(n.port), "--config=" + config, "--kubeconfig=" + kubeconfig, "--root-dir=" + filepath.Join(dir, "root"), "--hostname-override=" + n.name}
	log := filepath.Join(dir, "log")
	n.cmd = exec.CommandContext(ctx, p.binary, args...)
	if err := launch(n.cmd, log); err != nil {
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
		n.stop()
		return nil, withLog(err, log)
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

// pod returns a pod that exits at once on SIGTERM. It is bound to the node, to leave the scheduler
// out.
func (n *clusterNode) pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: benchNamespace, Name: n.name + "-" + name},
		Spec: v1.PodSpec{
			NodeName: n.name, TerminationGracePeriodSeconds: new(int64(10)),
			Containers: []v1.Container{{Name: "main", Image: n.image, ImagePullPolicy: v1.PullIfNotPresent, Command: command}},
		},
	}
}

type startAndEnd struct{ ready, gone time.Duration }

func medians(all []startAndEnd) startAndEnd {
	var ready, gone []time.Duration
	for _, one := range all {
		ready, gone = append(ready, one.ready), append(gone, one.gone)
	}
	return startAndEnd{median(ready), median(gone)}
}

// single returns the medians of pods that run one at a time.
func (n *clusterNode) single(ctx context.Context, runs int) (startAndEnd, error) {
	var all []startAndEnd
	for i := range runs {
		pod, one := n.pod(fmt.Sprint("single-", i)), startAndEnd{}
		pods := n.admin.Pods(benchNamespace)
		err := errors.Join(
			n.timed(ctx, &one.ready, pod.Name, func() error { _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); return err }, podReady),
			n.timed(ctx, &one.gone, pod.Name, func() error { return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}) }, isGone))
		if err != nil {
			return startAndEnd{}, err
		}
		all = append(all, one)
	}
	return medians(all), nil
}

// settle is the pause before a single measurement. After a pod became ready, its events are still
// being written and its process may not handle SIGTERM yet. After a pod was deleted, its sandbox
// may still be removed.
const settle = 500 * time.Millisecond

// timed stores the time from the start of call until a watcher sees the pod satisfy is.
func (w *watcher) timed(ctx context.Context, into *time.Duration, name string, call func() error, is func(*v1.Pod) bool) error {
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	begin := time.Now()
	if err := call(); err != nil {
		return err
	}
	at, err := w.await(ctx, name, is)
	*into = at.Sub(begin)
	return err
}

// floor measures the lower bound: the CRI calls, and the times until a watcher sees the creation
// of a pod, a patch of its status, and its removal.
func (c *cluster) floor(ctx context.Context, e endpoint, dir string, o options) (startAndEnd, error) {
	b, err := newBare(ctx, e, dir, o.image)
	if err != nil {
		return startAndEnd{}, err
	}
	defer b.close()
	n := &clusterNode{cluster: c, name: fmt.Sprintf("nobody-%d", time.Now().UnixNano()%1e6), image: o.image}
	if n.watcher, err = c.watch(ctx); err != nil {
		return startAndEnd{}, err
	}
	defer n.watcher.stop()
	var all []startAndEnd
	for i := range o.runs {
		one, err := n.bare(ctx, b, fmt.Sprint("trip-", i))
		if err != nil {
			return startAndEnd{}, err
		}
		all = append(all, one)
	}
	return medians(all), nil
}

func (n *clusterNode) bare(ctx context.Context, b *bare, name string) (startAndEnd, error) {
	var create, patch, remove time.Duration
	pod, pods := n.pod(name), n.admin.Pods(benchNamespace)
	err := errors.Join(
		n.timed(ctx, &create, pod.Name, func() error { _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); return err }, func(p *v1.Pod) bool { return p != nil }),
		n.timed(ctx, &patch, pod.Name, func() error {
			_, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
			return err
		}, func(p *v1.Pod) bool { return p != nil && p.Status.Phase == v1.PodRunning }),
		n.timed(ctx, &remove, pod.Name, func() error {
			return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		}, isGone))
	if err != nil {
		return startAndEnd{}, err
	}
	begin := time.Now()
	sandbox, err := b.start(ctx)
	started := time.Since(begin)
	if err := errors.Join(err, sleep(ctx, settle)); err != nil {
		return startAndEnd{}, err
	}
	begin = time.Now()
	err = b.client.StopPodSandbox(ctx, sandbox)
	stopped := time.Since(begin)
	return startAndEnd{create + started + patch, patch + stopped + patch + remove}, errors.Join(err, b.client.RemovePodSandbox(ctx, sandbox))
}

func isGone(p *v1.Pod) bool { return p == nil }

func podReady(p *v1.Pod) bool {
	return p != nil && slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

// burst measures many pods at once, the CPU time that they cost the kubelet, and the kubelet at
// rest.
func (n *clusterNode) burst(ctx context.Context, put func(row, value string), o options) error {
	pods := n.pods("burst", o.burst)
	var up []time.Duration
	used, err := spent(n.cmd.Process.Pid, func() (err error) { up, err = n.create(ctx, pods, podReady); return err })
	if err != nil {
		return err
	}
	put(fmt.Sprintf("%d pods at once: last Ready; median", o.burst), ms(slices.Max(up))+"; "+ms(median(up)))
	put("CPU of the agent per started pod", fmt.Sprintf("%.1f ms", float64(used)/1e6/float64(o.burst)))
	if err := n.rest(ctx, put, o); err != nil {
		return err
	}
	gone, err := n.remove(ctx, pods)
	if err != nil {
		return err
	}
	put(fmt.Sprintf("%d pods deleted at once: all gone", o.burst), ms(gone))
	return nil
}

func (n *clusterNode) rest(ctx context.Context, put func(row, value string), o options) error {
	used, err := atRest(ctx, n.cmd.Process.Pid, o.idle)
	if err != nil {
		return err
	}
	m, err := memory(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	put(fmt.Sprintf("%d idle pods: CPU of the agent", o.burst), fmt.Sprintf("%.1f ms per second", used))
	put(fmt.Sprintf("%d idle pods: resident memory; anonymous; file", o.burst), fmt.Sprintf("%.1f; %.1f; %.1f MiB", m["VmRSS"], m["RssAnon"], m["RssFile"]))
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
