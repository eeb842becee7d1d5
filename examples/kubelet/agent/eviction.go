package agent

import (
	"context"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	driver "github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/evictions"
	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/syncloop/eviction"
)

func newEvictor(in *inputs, conn *Connection, pods *lifecycle, stats *summary.Provider, imageGC *gc.Manager) (*eviction.Manager, error) {
	cfg := in.cfg
	policy, err := evictions.Policy(&cfg.Kubelet)
	if err != nil {
		return nil, err
	}
	measurer, err := evictions.NewMeasurer(evictions.Config{
		Policy: policy, Stats: stats, Images: conn.Images.ImageFsInfo, Device: evictions.Device, Root: in.folders.root,
		Containers: func(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
			return conn.Runtime.ListContainerStats(ctx, nil)
		},
		Pods: pods.active, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	evicting := eviction.Config{
		Policy: policy, Measure: measurer.Measure, Pods: pods.active, Kill: pods.evict, Cleaned: pods.finished,
		RemoveDeadContainers: func(ctx context.Context) error { return pods.syncer.RemoveDeadContainers(ctx) },
		Event:                in.recorder.annotated,
		Node:                 in.recorder.node,
		OnEvict:              cfg.Metrics.Evictions.Evicted,
		OnPressure: func(p eviction.Pressure) {
			cfg.Logger.Info("The pressure of the node has changed", "memory", p.Memory, "disk", p.Disk, "pid", p.PID)
			in.cluster.writeNode()
		},
		Logger: cfg.Logger,
	}
	if cfg.Kubelet.ContainerRuntimeEndpoint != config.Embedded { // its images use no space
		evicting.RemoveUnusedImages = func(ctx context.Context) error {
			_, err := imageGC.RemoveUnused(ctx)
			return err
		}
	}
	if cfg.Kubelet.KernelMemcgNotification {
		if cgroups.HostVersion() == driver.V1 {
			evicting.Watch = measurer.Watch(filepath.Join(cgroupMount, "memory"))
		} else {
			cfg.Logger.Warn("kernelMemcgNotification has no effect with cgroup v2; memory is measured every 10 s")
		}
	}
	return eviction.New(evicting)
}
