package agent

import (
	"context"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	driver "github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/evictions"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop/eviction"
)

// newEvictor evicts pods when something of the node runs short.
func (n *node) newEvictor() (*eviction.Manager, error) {
	policy, err := evictions.Policy(&n.cfg.Kubelet)
	if err != nil {
		return nil, err
	}
	measurer, err := evictions.NewMeasurer(evictions.Config{
		Policy: policy, Stats: n.summary, Images: n.conn.Images.ImageFsInfo, Device: evictions.Device, Root: n.folders.root,
		Containers: func(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
			return n.conn.Runtime.ListContainerStats(ctx, nil)
		},
		Pods: n.handler.ActivePods, Logger: n.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	cfg := eviction.Config{
		Policy: policy, Measure: measurer.Measure, Pods: n.handler.ActivePods, Kill: n.evict,
		Cleaned:              func(pod *v1.Pod) bool { return n.workers.State(pod.UID).ShouldBeFinished() },
		RemoveDeadContainers: n.syncer.RemoveDeadContainers,
		Event:                n.annotated,
		Node:                 nodeReference(n.cfg.Flags.NodeName),
		OnEvict:              n.cfg.Metrics.Evictions.Evicted,
		OnPressure:           n.pressed,
		Logger:               n.cfg.Logger,
	}
	if n.cfg.Kubelet.ContainerRuntimeEndpoint != config.Embedded { // whose images take no space
		cfg.RemoveUnusedImages = func(ctx context.Context) error {
			_, err := n.imageGC.RemoveUnused(ctx)
			return err
		}
	}
	if n.cfg.Kubelet.KernelMemcgNotification {
		if cgroups.HostVersion() == driver.V1 {
			cfg.Watch = measurer.Watch(filepath.Join(cgroupMount, "memory"))
		} else {
			n.cfg.Logger.Warn("kernelMemcgNotification has no effect with cgroup v2, whose kernels tell nobody; memory is looked at every ten seconds")
		}
	}
	return eviction.New(cfg)
}

func (n *node) evict(ctx context.Context, v eviction.Victim) error {
	return n.workers.Kill(ctx, v.Pod, podworkers.KillOptions{Evict: true, Status: v.Apply, GracePeriodSeconds: &v.GraceSeconds})
}

// pressed has the Node say at once what it is short of.
func (n *node) pressed(p eviction.Pressure) {
	n.cfg.Logger.Info("what the node is short of has changed", "memory", p.Memory, "disk", p.Disk, "pid", p.PID)
	if n.cluster != nil {
		n.cluster.node.Wake()
	}
}
