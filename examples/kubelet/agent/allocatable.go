package agent

import (
	"context"
	"errors"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/examples/kubelet/allocatable"
	"github.com/podwright/podwright/examples/kubelet/config"
	kubelet "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/internal/run"
)

// newEnforcer checks that the machine has what is reserved of it, and holds pods to the
// rest. It is nil if pods have no cgroups.
func (g *ground) newEnforcer(c *podCgroups) (*allocatable.Enforcer, error) {
	reserved, err := kubelet.ParseReservations(&g.cfg.Kubelet)
	if err != nil {
		return nil, err
	}
	machine, err := kubelet.ReadMachine(os.DirFS("/"))
	if err != nil {
		return nil, err
	}
	online, err := kubelet.OnlineCPUs(os.DirFS("/"))
	if err != nil {
		return nil, err
	}
	if machine.Storage, err = kubelet.StorageOf(g.cfg.Flags.RootDir)(); err != nil {
		return nil, err
	}
	g.self.Store(ownStatus(&g.cfg.Kubelet, &machine, reserved))
	if err := reserved.Check(&machine, online); err != nil || c == nil {
		return nil, err
	}
	if err := checkSwap(g.cfg.Kubelet.MemorySwap.SwapBehavior, c.kernel.Version(), swapController(cgroupMount)); err != nil {
		return nil, err
	}
	return allocatable.New(allocatable.Config{
		Kernel: c.kernel, Tree: c.tree, Capacity: kubelet.Capacity(&machine),
		System: reserved.System(), Kube: reserved.Kube(), Keys: config.AllocatableKeys(&g.cfg.Kubelet),
		Event: func(eventtype, reason, message string) {
			g.event(nodeReference(g.cfg.Flags.NodeName), eventtype, reason, message)
		},
	})
}

// forPods is what pods are told that the node has for them, after what is reserved: as this
// agent reports it, whether or not the API server has heard of that yet. newEnforcer finds it out.
func (g *ground) forPods() v1.ResourceList {
	if self := g.self.Load(); self != nil {
		return self.Allocatable
	}
	return nil
}

// checkSwap refuses to share out swap where a container's cannot be limited.
func checkSwap(behavior string, version cgroups.Version, controller bool) error {
	switch {
	case behavior != config.LimitedSwap:
		return nil
	case version == cgroups.V1:
		return errors.New("memorySwap.swapBehavior: LimitedSwap needs cgroup v2")
	case !controller:
		return errors.New("memorySwap.swapBehavior: LimitedSwap needs a kernel that accounts the swap of cgroups")
	}
	return nil
}

// prepare gets the machine ready once the runtime is ready for the first time. From then on
// it keeps the limits of all pods, and evicts those for which nothing is left, until ctx ends.
func (n *node) prepare(ctx context.Context) error {
	for !n.health.Health().RuntimeReady.Ready() {
		select {
		case <-ctx.Done():
			return nil
		case <-n.health.changed:
		}
	}
	if n.cfg.Tune != nil {
		if err := n.cfg.Tune(); err != nil {
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
