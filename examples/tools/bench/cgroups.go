package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/podwright/podwright/cri/cgroups"
	kubelet "github.com/podwright/podwright/examples/kubelet/cgroups"
)

// cgroupBlock is the number of pods that one kubelet starts before the next kubelet's turn. Two
// kubelets cannot share a runtime.
const cgroupBlock = 10

// cgroupFigures compares the start times of pods with and without their own cgroups, alternately:
// for kubelets, and for bare CRI calls.
func cgroupFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	kinds := []peer{
		{"with cgroups", binary, ownSettings},
		{"without", binary, ownSettings + "cgroupsPerQOS: false\nenforceNodeAllocatable: []\n"},
	}
	for i, e := range endpoints {
		fmt.Printf("\n%s\n", e.name)
		var took, bare [2][]time.Duration
		for block := 0; block < o.runs; block += cgroupBlock {
			n := min(cgroupBlock, o.runs-block)
			for k, kind := range kinds {
				a, err := startPeer(ctx, kind, e, filepath.Join(dir, fmt.Sprintf("cgroups-%d-%d-%s", i, block, kind.name)), o.image)
				if err != nil {
					return err
				}
				for run := range n {
					one, err := a.startAndRemove(ctx, fmt.Sprintf("pod-%d", run), limitedPod)
					if err != nil {
						a.stop()
						return err
					}
					took[k] = append(took[k], one)
				}
				a.stop()
			}
			if err := bareInCgroup(ctx, e, dir, o.image, n, &bare); err != nil {
				return err
			}
		}
		report := func(name string, took [2][]time.Duration) {
			with, without := median(took[0]), median(took[1])
			fmt.Printf("  %s: with cgroups %v, without %v (medians of %d), difference %v\n", name, with.Round(100*time.Microsecond), without.Round(100*time.Microsecond), len(took[0]), (with - without).Round(100*time.Microsecond))
		}
		report("file written to Running in /pods, limit of the difference 6ms", took)
		report("bare calls of the runtime", bare)
	}
	return nil
}

// bareInCgroup starts n pods in an existing cgroup and n in the runtime's default one,
// alternately.
func bareInCgroup(ctx context.Context, e endpoint, dir, image string, n int, took *[2][]time.Duration) (err error) {
	host, err := kubelet.NewHost(cgroups.Cgroupfs)
	if err != nil {
		return err
	}
	top := cgroups.Name{"podwright-bare"}
	pod := cgroups.Name{top[0], "kubepods", "burstable", "pod1"}
	if err := host.Set(ctx, pod, cgroups.Values{Shares: 102, Memory: 64 << 20}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Remove(ctx, top)) }()
	b, err := newBare(ctx, e, dir, image)
	if err != nil {
		return err
	}
	defer b.close()
	for range n {
		for k, parent := range []string{cgroups.Cgroupfs.Path(pod), ""} {
			b.parent = parent
			begin := time.Now()
			id, err := b.start(ctx)
			took[k] = append(took[k], time.Since(begin))
			if err := errors.Join(err, b.stop(ctx, id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// limitedPod has no CPU limit. The processes that start a container run inside the pod's cgroup,
// so a limit would add throttling to the measured time.
const limitedPod = `containers: [{%s, resources: {requests: {cpu: 100m}, limits: {memory: 64Mi}}}]`
