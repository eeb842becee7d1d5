package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/pods/resize"
	kernel "github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers/stages"
)

// podCgroups are the cgroups of pods; nil if pods have none of their own.
type podCgroups struct {
	*kernel.Stage
	kernel kernel.Kernel
	tree   *cgroups.Tree
}

// newCgroups finds the machine's cgroups and makes those of all pods and of classes. What
// fails here keeps the agent from beginning. Where pods get no cgroups, only the version of
// the machine's is of interest: containers are in some all the same.
func newCgroups(ctx context.Context, cfg *Config, driverName string, folders folders, recorder recorder) (*podCgroups, error) {
	if cfg.Cgroups == nil {
		return nil, nil
	}
	driver := cgroups.Driver(driverName)
	host, err := cfg.Cgroups(driver)
	if err == nil && host.Version() == cgroups.V1 {
		recorder.ofNode(v1.EventTypeWarning, "CgroupV1", "this host has cgroup v1, which Kubernetes will not support for much longer (failCgroupV1)")
	}
	if !*cfg.Kubelet.CgroupsPerQOS {
		return nil, nil // whatever the machine lacks then
	}
	if err != nil {
		return nil, err
	}
	tree, err := cgroups.NewTree(driver, cfg.Kubelet.CgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("cgroupRoot: %w", err)
	}
	stage, err := kernel.New(kernel.Config{Kernel: cfg.Metrics.Cgroups.Count(host), Tree: tree, Values: cgroupValues(&cfg.Kubelet, host.HugePageSizes()), Ours: folders.hasPod})
	if err != nil {
		return nil, err
	}
	if err := stage.Setup(ctx); err != nil {
		return nil, err
	}
	return &podCgroups{stage, host, tree}, nil
}

// cgroupValues are what holds for all pods of the node.
func cgroupValues(k *kubeletv1beta1.KubeletConfiguration, hugePages []string) cgroups.Config {
	return cgroups.Config{Period: k.CPUCFSQuotaPeriod.Duration, NoQuota: !*k.CPUCFSQuota, PodPids: *k.PodPidsLimit, HugePageSizes: hugePages}
}

// entries are the stage of pods' lives, if there is one. Volumes are released before it,
// so that nothing is killed that writes to them.
func (c *podCgroups) entries() []stages.Entry {
	if c == nil {
		return nil
	}
	return []stages.Entry{{Name: "cgroup", Release: stages.Stopped, Stage: c.Stage}}
}

// parent is pods.Config.CgroupParent, resizes its PodCgroups.
func (c *podCgroups) parent() func(*v1.Pod) string {
	if c == nil {
		return nil
	}
	return c.Parent
}

func (c *podCgroups) resizes() resize.Cgroups {
	if c == nil {
		return nil
	}
	return c.Stage
}

// cgroupsPeriod is the period in which classes get the weight of their pods, and removed cgroups are
// created again. A pod that starts or ends also updates its class.
const cgroupsPeriod = time.Minute

// keep does both until ctx ends. It begins when ready reports that all pods are known. The pods of active
// count: terminated and rejected ones have no weight.
func (c *podCgroups) keep(ctx context.Context, ready func() bool, active func() []*v1.Pod, log *slog.Logger) error {
	if c == nil {
		<-ctx.Done()
		return nil
	}
	for pause := time.Second; run.Sleep(ctx, pause); {
		if !ready() {
			continue
		}
		pause = cgroupsPeriod
		if err := c.Refresh(ctx, active()); err != nil && ctx.Err() == nil {
			log.Warn("cgroups of classes are not as they should be; trying again", "err", err)
		}
	}
	return nil
}

// askDriver finds out who makes cgroups, for which the runtime has the last word: also of
// containers whose pods have none. A runtime without any is not asked.
func (a *Agent) askDriver(ctx context.Context, conn *Connection) error {
	if a.cfg.Cgroups == nil {
		return nil
	}
	configured := a.cfg.Kubelet.CgroupDriver
	driver, supported, err := cri.CgroupDriver(ctx, conn.Runtime, configured)
	if err != nil {
		return err
	}
	conn.driver, conn.hasNoDriver = driver, !supported
	switch {
	case !supported:
		a.log.Warn("the runtime does not say which cgroup driver it has; the configured one is used", "driver", driver)
	case driver != configured:
		a.log.Warn("cgroupDriver is not the runtime's, which is used", "configured", configured, "runtime", driver)
	}
	return nil
}
