package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// plegFigures measures the delay until changes of pods are seen: by the kubelet, whose containers
// are killed, and by a PLEG alone, with plegtest.Bench.
func plegFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	for i, run := range []struct {
		endpoint
		title string
		limit string
		flags []string
		cfg   pleg.Config
	}{
		{endpoints[0], "containerd 1.6, a list every second", "650 ms", nil, pleg.Config{}},
		{endpoints[0], "containerd 1.6, adaptive", "200 ms", []string{"--adaptive-relist"}, pleg.Config{AdaptiveRelist: true}},
		{endpoints[1], "containerd 2.2, events", "bare + 60 ms", nil, pleg.Config{}},
	} {
		fmt.Printf("\n%s, %d pods\n", run.title, o.pleg)
		dir := filepath.Join(dir, fmt.Sprint("pleg-", i))
		b, err := newBare(ctx, run.endpoint, dir, o.image)
		if err != nil {
			return err
		}
		err = errors.Join(kills(ctx, b, binary, dir, run.endpoint, run.limit, run.flags, o), measurePLEG(ctx, b, run.cfg, o))
		b.close()
		if err != nil {
			return fmt.Errorf("%s: %w", run.title, err)
		}
	}
	return nil
}

// kills kills the container of each of the kubelet's pods once, in sequence.
func kills(ctx context.Context, b *bare, binary, dir string, e endpoint, limit string, flags []string, o options) error {
	bare, err := b.newKills(ctx)
	if err != nil {
		return err
	}
	a, err := startAgent(ctx, binary, e, dir, o.image, flags...)
	if err != nil {
		return err
	}
	defer a.stop()
	for i := range o.pleg {
		if err := a.add(victim(i)); err != nil {
			return err
		}
	}
	err = a.awaitPods(ctx, pollMany, "all pods run", func(p map[string]v1.Pod) bool {
		for i := range o.pleg {
			if !isRunning(p[victim(i)]) {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	ours, err := killEach(ctx, bare, a, o.pleg)
	if err != nil {
		return err
	}
	row("kill to start of the next container (median)", median(ours), median(bare.starts), 0)
	fmt.Printf("  %-52s %10s\n", "  including: kill to exit in the runtime (median)", ms(median(bare.exits)))
	fmt.Printf("  %-52s %10s   (limit of the median: %s)\n", "  slowest", ms(slices.Max(ours)), limit)
	if err := a.allEnd(ctx, o.pleg, victim); err != nil {
		return err
	}
	return bare.end(ctx)
}

func victim(i int) string { return fmt.Sprintf("kill-%d", i) }

// killEach kills containers at random moments, so that no kill has a fixed distance from a relist.
// It also kills a bare container before each.
func killEach(ctx context.Context, bare *bareKills, a *agent, n int) (ours []time.Duration, err error) {
	for i := range n {
		if err := bare.next(ctx); err != nil {
			return nil, err
		}
		if err := sleep(ctx, rand.N(time.Second)); err != nil {
			return nil, err
		}
		took, err := bare.b.killed(ctx, a, victim(i))
		if err != nil {
			return nil, err
		}
		ours = append(ours, took)
	}
	return ours, nil
}

// killed kills a pod's container and returns the time until its successor started, by the
// runtime's records. It polls the runtime and not the kubelet, to leave the kubelet undisturbed.
func (b *bare) killed(ctx context.Context, a *agent, uid string) (took time.Duration, err error) {
	began, err := b.killPod(ctx, uid)
	if err != nil {
		return 0, err
	}
	err = a.await(ctx, pollMany, uid+" runs again", func() bool {
		c, err := b.running(ctx, uid)
		if err != nil || c.Metadata.Attempt != 1 {
			return false
		}
		status, err := b.client.ContainerStatus(ctx, c.Id, false)
		if err != nil {
			return false
		}
		took = time.Unix(0, status.Status.StartedAt).Sub(began)
		return true
	})
	return took, err
}

// measurePLEG measures a PLEG without a kubelet, on pods made by CRI calls.
func measurePLEG(ctx context.Context, b *bare, cfg pleg.Config, o options) error {
	observer, err := observe.New(observe.Config{Runtime: b.client, RuntimeName: "containerd", Owner: cri.Owner{Unlabelled: true}})
	if err != nil {
		return err
	}
	cfg.Runtime = observer
	report, err := plegtest.Bench{
		PLEG: cfg, Pods: barePods{b, observer}, Idle: o.pleg, Watch: o.idle, Rounds: 2 * o.runs,
		CPU: func() time.Duration { used, _ := cpuTime(syscall.Getpid()); return used },
	}.Run(ctx)
	fmt.Printf("  a PLEG alone, with %d pods at rest:\n", o.pleg)
	for line := range lines(report.String()) {
		fmt.Println("    " + line)
	}
	return err
}
