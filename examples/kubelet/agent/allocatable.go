package agent

import (
	"context"
	"errors"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/examples/kubelet/allocatable"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/internal/run"
)

// newEnforcer limits all pods to the resources of the machine that are not reserved. It returns nil
// if pods have no cgroups.
func newEnforcer(cfg *Config, m *machine, c *podCgroups, recorder recorder) (*allocatable.Enforcer, error) {
	if c == nil {
		return nil, nil
	}
	if err := checkSwap(cfg.Kubelet.MemorySwap.SwapBehavior, c.kernel.Version(), swapController(cgroupMount)); err != nil {
		return nil, err
	}
	return allocatable.New(allocatable.Config{
		Kernel: c.kernel, Tree: c.tree, Capacity: m.capacity,
		System: m.reserved.System(), Kube: m.reserved.Kube(), Keys: config.AllocatableKeys(&cfg.Kubelet),
		Event: recorder.ofNode,
	})
}

// checkSwap returns an error for LimitedSwap on a host that cannot limit the swap of a container.
func checkSwap(behavior string, version cgroups.Version, controller bool) error {
	switch {
	case behavior != config.LimitedSwap:
		return nil
	case version == cgroups.V1:
		return errors.New("memorySwap.swapBehavior: LimitedSwap needs cgroup v2")
	case !controller:
		return errors.New("memorySwap.swapBehavior: LimitedSwap requires a kernel with swap accounting for cgroups")
	}
	return nil
}

// prepare waits until the runtime is ready, then tunes the kernel and reserves resources. After
// that it enforces the limits of all pods, and evicts pods under node pressure, until ctx is done.
func (n *node) prepare(ctx context.Context) error {
	for !n.health.Health().RuntimeReady.Ready() {
		select {
		case <-ctx.Done():
			return nil
		case <-n.health.changed:
		}
	}
	if n.in.cfg.Tune != nil {
		if err := n.in.cfg.Tune(); err != nil {
			return err
		}
	}
	if n.enforcer == nil {
		return n.evictor.Run(ctx)
	}
	if err := n.enforcer.Reserve(ctx); err != nil {
		return err
	}
	return run.All(ctx, n.enforcer.Run, n.evictor.Run)
}
