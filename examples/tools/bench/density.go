package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// densityFigures measures how the cost of pods of a real API server grows with their number. A new
// kubelet for each number starts the pods, rests, lets a tenth of them crash repeatedly, and ends
// them.
func densityFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	var sizes []int
	for _, text := range strings.Split(o.density, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 10 {
			return fmt.Errorf("-density %s: %q is not a number of at least 10", o.density, text)
		}
		sizes = append(sizes, n)
	}
	return onCluster(ctx, endpoints, binary, withoutAuthentication, o, func(c *cluster, t *table, all []peer, i int, e endpoint) error {
		for _, pods := range sizes {
			for _, p := range all {
				if err := c.density(ctx, t, p, e, pods, filepath.Join(dir, fmt.Sprint(p.name, "-", i, "-", pods)), o); err != nil {
					return fmt.Errorf("%s: %d pods: %w", p.name, pods, err)
				}
			}
		}
		return nil
	})
}

func (c *cluster) density(ctx context.Context, t *table, p peer, e endpoint, pods int, dir string, o options) error {
	n, err := c.start(ctx, p, e, dir, o.image)
	if err != nil {
		return err
	}
	defer n.stop()
	put := func(row, value string) { t.put(p.name, fmt.Sprintf("%d pods: %s", pods, row), value) }
	crashing := pods / 10
	well, crash := n.pods("well", pods), n.pods("crash", crashing)
	for _, pod := range crash {
		pod.Spec.Containers[0].Command = []string{"/testprog", "exit", "1"}
	}

	var up []time.Duration
	if err := n.spend(ctx, put, "start", float64(pods), "per pod", func() (err error) { up, err = n.create(ctx, well, podReady); return }); err != nil {
		return err
	}
	put("start, last Ready; median", ms(slices.Max(up))+"; "+ms(median(up)))
	if err := n.watched(ctx, put, "rest", o.idle); err != nil {
		return err
	}
	m, err := memory(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	put("rest, resident memory; anonymous", fmt.Sprintf("%.1f; %.1f MiB", m["VmRSS"], m["RssAnon"]))
	if _, err := n.remove(ctx, well[:crashing]); err != nil {
		return err
	}
	if _, err := n.create(ctx, crash, hasCrashed); err != nil {
		return err
	}
	if err := n.watched(ctx, put, "a tenth crashes", o.idle); err != nil {
		return err
	}
	var gone time.Duration
	if err := n.spend(ctx, put, "end", float64(pods), "per pod", func() (err error) { gone, err = n.remove(ctx, slices.Concat(well[crashing:], crash)); return }); err != nil {
		return err
	}
	put("end, all gone", ms(gone))
	return nil
}

// watched measures the kubelet's cost per second during d, after a pause of 5 s.
func (n *clusterNode) watched(ctx context.Context, put func(row, value string), phase string, d time.Duration) error {
	if err := sleep(ctx, 5*time.Second); err != nil {
		return err
	}
	return n.spend(ctx, put, phase, d.Seconds(), "per second", func() error { return sleep(ctx, d) })
}

// pods returns count pods named name-0, name-1 and so on.
func (n *clusterNode) pods(name string, count int) (out []*v1.Pod) {
	for i := range count {
		out = append(out, n.pod(fmt.Sprint(name, "-", i)))
	}
	return out
}

// create creates pods and returns, for each, the time from the first call until a watcher saw it
// satisfy is.
func (n *clusterNode) create(ctx context.Context, pods []*v1.Pod, is func(*v1.Pod) bool) (took []time.Duration, err error) {
	begin := time.Now()
	for _, pod := range pods {
		if _, err := n.admin.Pods(benchNamespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	for _, pod := range pods {
		at, err := n.await(ctx, pod.Name, is)
		if err != nil {
			return nil, err
		}
		took = append(took, at.Sub(begin))
	}
	return took, nil
}

// remove deletes pods and returns the time until the last was gone.
func (n *clusterNode) remove(ctx context.Context, pods []*v1.Pod) (time.Duration, error) {
	begin := time.Now()
	for _, pod := range pods {
		if err := n.admin.Pods(benchNamespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			return 0, err
		}
	}
	last := begin
	for _, pod := range pods {
		at, err := n.await(ctx, pod.Name, isGone)
		if err != nil {
			return 0, err
		}
		if at.After(last) {
			last = at
		}
	}
	return last.Sub(begin), nil
}

func hasCrashed(p *v1.Pod) bool {
	return p != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0
}

// account is the total cost of a kubelet since its start.
type account struct {
	cpu                      time.Duration
	runtime, lists, requests float64 // CRI calls; the list calls among them; requests to the API server
}

// spend measures the cost of do and divides it by by.
func (n *clusterNode) spend(ctx context.Context, put func(row, value string), phase string, by float64, unit string, do func() error) error {
	before, err := n.account(ctx)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	after, err := n.account(ctx)
	if err != nil {
		return err
	}
	put(phase+", CPU of the agent "+unit, fmt.Sprintf("%.1f ms", float64(after.cpu-before.cpu)/1e6/by))
	put(phase+", calls of the runtime (lists); requests to the API server "+unit, fmt.Sprintf("%.2f (%.2f); %.2f",
		(after.runtime-before.runtime)/by, (after.lists-before.lists)/by, (after.requests-before.requests)/by))
	return nil
}

// account reads the CPU time and the metrics, whose names are the same for both kubelets.
func (n *clusterNode) account(ctx context.Context) (a account, err error) {
	if a.cpu, err = cpuTime(n.cmd.Process.Pid); err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", n.port), nil)
	if err != nil {
		return a, err
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return a, fmt.Errorf("/metrics: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, labels, _ := strings.Cut(lines.Text(), "{")
		value, _ := strconv.ParseFloat(labels[strings.LastIndexByte(labels, ' ')+1:], 64)
		switch name {
		case "kubelet_runtime_operations_total":
			a.runtime += value
			if strings.Contains(labels, `"list_`) {
				a.lists += value
			}
		case "rest_client_requests_total":
			a.requests += value
		}
	}
	return a, lines.Err()
}
