package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/procfs"
	v1 "k8s.io/api/core/v1"
)

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d)/1e6) }

// row prints a figure, the bare figure, and their ratio. A limit of 0 is not printed.
func row(name string, ours, bare time.Duration, limit float64) {
	bound := ""
	if limit > 0 {
		bound = fmt.Sprintf(" (limit %.2f)", limit)
	}
	fmt.Printf("  %-52s %10s   bare %10s   ratio %.2f%s\n", name, ms(ours), ms(bare), float64(ours)/float64(bare), bound)
}

// single measures the start and the removal of one pod, alternately by CRI calls and by the agent.
func single(ctx context.Context, b *bare, a *agent, o options) error {
	var ourStart, ourStop, bareStart, bareStop []time.Duration
	timed := func(into *[]time.Duration, f func() error) error {
		begin := time.Now()
		err := f()
		*into = append(*into, time.Since(begin))
		return err
	}
	for i := range o.runs {
		var sandbox string
		name := fmt.Sprintf("single-%d", i)
		steps := []error{
			timed(&bareStart, func() (err error) { sandbox, err = b.start(ctx); return }),
			timed(&bareStop, func() error { return b.stop(ctx, sandbox) }),
			timed(&ourStart, func() error { return a.runs(ctx, name, "containers: [{%s}]") }),
			timed(&ourStop, func() error { return a.ends(ctx, name) }),
		}
		for _, err := range steps {
			if err != nil {
				return err
			}
		}
	}
	row("one pod: file seen to Running in /pods", median(ourStart), median(bareStart), 1.25)
	row("one pod: file removed to gone from /pods", median(ourStop), median(bareStop), 1.40)
	return nil
}

// restart kills a container's process and measures the time until its successor runs.
func restart(ctx context.Context, b *bare, a *agent, o options) error {
	bareKills, err := b.newKills(ctx)
	if err != nil {
		return err
	}
	var ours []time.Duration
	for i := range o.runs {
		if err := bareKills.next(ctx); err != nil {
			return err
		}
		took, err := restartOnce(ctx, b, a, fmt.Sprintf("restart-%d", i))
		if err != nil {
			return err
		}
		ours = append(ours, took)
	}
	row("restart of a dead container", median(ours), median(bareKills.starts), 0)
	fmt.Printf("  %-52s %10s   (limit 1200 ms polling, 250 ms events)\n", "  slowest", ms(slices.Max(ours)))
	return bareKills.end(ctx)
}

func restartOnce(ctx context.Context, b *bare, a *agent, name string) (time.Duration, error) {
	if err := a.runs(ctx, name, "containers: [{%s}]"); err != nil {
		return 0, err
	}
	begin, err := b.killPod(ctx, name)
	if err != nil {
		return 0, err
	}
	err = a.awaitPods(ctx, pollOne, name+" runs again", func(p map[string]v1.Pod) bool {
		return isRunning(p[name]) && p[name].Status.ContainerStatuses[0].RestartCount == 1
	})
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	return took, a.ends(ctx, name)
}

// burst starts many pods at once. They stay for idle.
func burst(ctx context.Context, b *bare, a *agent, o options) error {
	bare, sandboxes, err := b.burst(ctx, o.burst)
	for _, id := range sandboxes {
		if stopErr := b.stop(ctx, id); err == nil {
			err = stopErr
		}
	}
	if err != nil {
		return err
	}
	begin := time.Now()
	for i := range o.burst {
		if err := a.add(fmt.Sprintf("burst-%d", i)); err != nil {
			return err
		}
	}
	up := map[string]time.Duration{}
	err = a.awaitPods(ctx, pollMany, "all pods of the burst run", func(pods map[string]v1.Pod) bool {
		for name, p := range pods {
			if _, known := up[name]; !known && isRunning(p) {
				up[name] = time.Since(begin)
			}
		}
		return len(up) >= o.burst
	})
	if err != nil {
		return err
	}
	var ours []time.Duration
	for _, d := range up {
		ours = append(ours, d)
	}
	row(fmt.Sprintf("%d pods at once: the last is Running", o.burst), slices.Max(ours), slices.Max(bare), 1.15)
	fmt.Printf("  %-52s %10s   last %10s   ratio %.2f (limit 0.65)\n", "  median", ms(median(ours)), ms(slices.Max(ours)),
		float64(median(ours))/float64(slices.Max(ours)))
	return nil
}

// idle measures the agent with the pods of burst, and removes them.
func idle(ctx context.Context, _ *bare, a *agent, o options) error {
	used, err := atRest(ctx, a.cmd.Process.Pid, o.idle)
	if err != nil {
		return err
	}
	memory, err := memory(a.cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("  %-52s %10.1f ms per second (limit 10)\n", fmt.Sprintf("%d idle pods: CPU of the agent", o.burst), used)
	fmt.Printf("  %-52s %10.1f MiB (limit 40), of it %.1f anonymous, %.1f file\n", "  resident memory", memory["VmRSS"], memory["RssAnon"], memory["RssFile"])
	if err := scrapes(ctx, a, o); err != nil {
		return err
	}
	begin := time.Now()
	err = a.allEnd(ctx, o.burst, func(i int) string { return fmt.Sprintf("burst-%d", i) })
	fmt.Printf("  %-52s %10s\n", fmt.Sprintf("%d pods removed at once: all gone", o.burst), ms(time.Since(begin)))
	return err
}

// cpuTime returns the user and system time of a process since its start.
func cpuTime(pid int) (time.Duration, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// spent returns the CPU time that a process uses while f runs.
func spent(pid int, f func() error) (time.Duration, error) {
	before, err := cpuTime(pid)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := cpuTime(pid)
	return after - before, err
}

// atRest lets a process settle for 5 s and returns its CPU time during d, in milliseconds per
// second.
func atRest(ctx context.Context, pid int, d time.Duration) (float64, error) {
	if err := sleep(ctx, 5*time.Second); err != nil {
		return 0, err
	}
	used, err := spent(pid, func() error { return sleep(ctx, d) })
	return float64(used) / 1e6 / d.Seconds(), err
}

// memory returns the process's resident memory in MiB, by kind.
func memory(pid int) (map[string]float64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return nil, err
	}
	s, err := p.NewStatus()
	const mib = 1 << 20
	return map[string]float64{"VmRSS": float64(s.VmRSS) / mib, "RssAnon": float64(s.RssAnon) / mib, "RssFile": float64(s.RssFile) / mib}, err
}
