// Command bench compares the kubelet of this repository with bare CRI calls on the same runtime.
// It prints both figures and their ratio.
//
//	go run ./examples/tools/testbed -- go run ./examples/tools/bench
//	go run ./examples/tools/testbed -- go run ./examples/tools/bench -pleg 100
//	go run ./examples/tools/testbed -- go run ./examples/tools/bench -ready 50
//	go run ./examples/tools/testbed -- go run ./examples/tools/bench -stop 50
//	go run ./examples/tools/testbed -controlplane -- go run ./examples/tools/bench -stop 50 -upstream
//	go run ./examples/tools/testbed -- go run ./examples/tools/bench -volumes
//	go run ./examples/tools/testbed -- go run ./examples/tools/bench -cgroups -runs 60
//	go run ./examples/tools/bench -volumepods 1000
//	go run ./examples/tools/testbed -controlplane -- go run ./examples/tools/bench -cluster -upstream
//	go run ./examples/tools/testbed -controlplane -- go run ./examples/tools/bench -density 50,110,250,500 -upstream
//	go run ./examples/tools/testbed -controlplane -- go run ./examples/tools/bench -logs 1000000000 -runs 5 -upstream
//	go run ./examples/tools/testbed -controlplane -- go run ./examples/tools/bench -exec 50 -upstream
//
// Each of these flags replaces the default figures:
//
//   - -pleg N: time until the kubelet sees the death of a container, with N pods; pleg.go
//   - -ready N: time until the kubelet sees that a server is ready, with N pods; ready.go
//   - -stop N: time until SIGTERM arrives at N pods; stop.go
//   - -volumes: time until a pod with volumes runs; volumes.go
//   - -cgroups: additional start time of a pod with cgroups; cgroups.go
//   - -volumepods N: cost of N pods with volumes, on a runtime in memory; manyvolumes.go
//   - -cluster: pods of a real API server; cluster.go
//   - -density N,N: growth of the cost with the number of pods; density.go
//   - -logs N, -exec N: logs and exec sessions of the kubelet API; sessions.go
//
// With -cluster, -density, -stop, -logs and -exec, the flag -upstream measures the upstream
// kubelet, too.
//
// The testbed's environment names the runtimes and the images. A figure without another label is a
// median. Measure on a quiet machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

type options struct {
	runs  int
	burst int
	idle  time.Duration
	image string
	pleg  int
	ready int
	stop  int

	volumePods int

	density string

	logs int64
	exec int

	volumes, cgroups, cluster, upstream bool
}

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 15, "number of measurements of each single-pod figure")
	flag.IntVar(&o.burst, "burst", 50, "number of pods that start at once; they stay for the idle figures")
	flag.DurationVar(&o.idle, "idle", 30*time.Second, "duration of the idle measurement")
	flag.IntVar(&o.pleg, "pleg", 0, "measure only the time from the death of a container to its restart, with this number of pods")
	flag.IntVar(&o.ready, "ready", 0, "measure only the time to readiness, with this number of pods")
	flag.IntVar(&o.stop, "stop", 0, "measure only the time to SIGTERM, with this number of pods stopped at once")
	flag.BoolVar(&o.volumes, "volumes", false, "measure only the start of pods with volumes")
	flag.BoolVar(&o.cgroups, "cgroups", false, "measure only the start of pods with and without their own cgroups")
	flag.IntVar(&o.volumePods, "volumepods", 0, "measure only the cost of volumes, with this number of pods on a runtime in memory")
	flag.BoolVar(&o.cluster, "cluster", false, "measure only pods of a real API server")
	flag.StringVar(&o.density, "density", "", "measure only the cost of pods of a real API server, for each of these numbers of pods, such as 50,110")
	flag.Int64Var(&o.logs, "logs", 0, "measure only reads of a log with this number of bytes through the kubelet API")
	flag.IntVar(&o.exec, "exec", 0, "measure only exec through the kubelet API, with this number of sessions")
	flag.BoolVar(&o.upstream, "upstream", false, "with -cluster, -density, -stop, -logs or -exec: also measure the upstream kubelet")
	flag.Parse()
	o.image = os.Getenv("PODWRIGHT_IMAGE_TESTPROG")

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	endpoints := []endpoint{
		{"containerd 1.6 (polling)", os.Getenv("PODWRIGHT_CRI_V1")},
		{"containerd 2.2 (events)", os.Getenv("PODWRIGHT_CRI_V2")},
	}
	if o.volumePods == 0 && (o.image == "" || endpoints[0].address == "" || endpoints[1].address == "") {
		return fmt.Errorf("no runtimes: use go run ./examples/tools/testbed -- go run ./examples/tools/bench")
	}
	dir, err := os.MkdirTemp("", "podwright-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "kubelet")
	if err := build(ctx, binary); err != nil {
		return err
	}
	for _, figures := range []struct {
		wanted bool
		take   func(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error
	}{
		{o.volumePods > 0, manyFigures}, {o.pleg > 0, plegFigures}, {o.ready > 0, readyFigures}, {o.stop > 0, stopFigures},
		{o.volumes, volumeFigures}, {o.cgroups, cgroupFigures}, {o.logs > 0 || o.exec > 0, sessionFigures},
		{o.density != "", densityFigures}, {o.cluster, clusterFigures},
	} {
		if figures.wanted {
			return figures.take(ctx, endpoints, binary, dir, o)
		}
	}
	for _, e := range endpoints {
		if err := measure(ctx, e, binary, filepath.Join(dir, filepath.Base(filepath.Dir(e.path()))), o); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

func measure(ctx context.Context, e endpoint, binary, dir string, o options) error {
	fmt.Printf("\n%s\n", e.name)
	b, err := newBare(ctx, e, dir, o.image)
	if err != nil {
		return err
	}
	defer b.close()
	a, err := startAgent(ctx, binary, e, dir, o.image)
	if err != nil {
		return err
	}
	defer a.stop()
	for _, figure := range []func(context.Context, *bare, *agent, options) error{single, restart, burst, idle} {
		if err := figure(ctx, b, a, o); err != nil {
			return err
		}
	}
	return nil
}
