package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// cgroupBlock is how many pods each kubelet starts before it is the other's turn: two cannot
// have one runtime at a time.
const cgroupBlock = 10

// cgroupFigures measures how long a pod takes to start with a cgroup of its own and without,
// by turns.
func cgroupFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	kinds := []peer{
		{"with cgroups", binary, ownSettings},
		{"without", binary, ownSettings + "cgroupsPerQOS: false\nenforceNodeAllocatable: []\n"},
	}
	for i, e := range endpoints {
		fmt.Printf("\n%s\n", e.name)
		took := map[string][]time.Duration{}
		for block := 0; block < o.runs; block += cgroupBlock {
			for _, kind := range kinds {
				a, err := startPeer(ctx, kind, e, filepath.Join(dir, fmt.Sprintf("cgroups-%d-%d-%s", i, block, kind.name)), o.image)
				if err != nil {
					return err
				}
				for run := range min(cgroupBlock, o.runs-block) {
					one, err := a.startAndRemove(ctx, fmt.Sprintf("pod-%d", run), limitedPod)
					if err != nil {
						a.stop()
						return err
					}
					took[kind.name] = append(took[kind.name], one)
				}
				a.stop()
			}
		}
		for _, kind := range kinds {
			fmt.Printf("  one pod: file written to Running in /pods, %-13s %v (median of %d)\n", kind.name, median(took[kind.name]).Round(100*time.Microsecond), len(took[kind.name]))
		}
		fmt.Printf("  difference %v, limit 6ms\n", (median(took[kinds[0].name]) - median(took[kinds[1].name])).Round(100*time.Microsecond))
	}
	return nil
}

// limitedPod has no limit of CPU: what starts containers runs inside the pod's cgroup, too, and
// would be measured while it waits for its share.
const limitedPod = `containers: [{%s, resources: {requests: {cpu: 100m}, limits: {memory: 64Mi}}}]`
