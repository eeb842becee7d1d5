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

// podCgroups are the cgroups of pods. Its methods accept nil: pods then have no cgroups.
type podCgroups struct {
	*kernel.Stage
	kernel kernel.Kernel
	tree   *cgroups.Tree
}

// newCgroups opens the machine's cgroups, and creates the cgroups of all pods and of the QoS
// classes. Its error ends the agent. With CgroupsPerQOS: false it only warns about cgroup v1 and
// returns nil, because containers have cgroups even then.
func newCgroups(ctx context.Context, cfg *Config, driverName string, folders folders, recorder recorder) (*podCgroups, error) {
	if cfg.Cgroups == nil {
		return nil, nil
	}
	driver := cgroups.Driver(driverName)
	host, err := cfg.Cgroups(driver)
	if err == nil && host.Version() == cgroups.V1 {
		recorder.ofNode(v1.EventTypeWarning, "CgroupV1", "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. "+
			"Please migrate to cgroup v2. More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1")
	}
	if !*cfg.Kubelet.CgroupsPerQOS {
		return nil, nil // also if the cgroups cannot be opened
	}
	if err != nil {
		return nil, err
	}
	if m, ok := host.(interface{ Missing() []string }); ok {
		for _, why := range m.Missing() {
			cfg.Logger.Warn("cgroups: " + why)
		}
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

func cgroupValues(k *kubeletv1beta1.KubeletConfiguration, hugePages []string) cgroups.Config {
	return cgroups.Config{Period: k.CPUCFSQuotaPeriod.Duration, NoQuota: !*k.CPUCFSQuota, PodPids: *k.PodPidsLimit, HugePageSizes: hugePages}
}

// entries returns the stage of the cgroups, if there is one. Volumes are released before it, so
// that the release of a cgroup kills no process that still writes to a volume.
func (c *podCgroups) entries() []stages.Entry {
	if c == nil {
		return nil
	}
	return []stages.Entry{{Name: "cgroup", Release: stages.Stopped, Stage: c.Stage}}
}

// parent returns pods.Config.CgroupParent. resizes returns pods.Config.PodCgroups.
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

// cgroupsPeriod is the period in which QoS classes get the weight of their pods and missing cgroups
// are created again. The start and the end of a pod also update its class.
const cgroupsPeriod = time.Minute

// keep refreshes the cgroups until ctx is done. It starts when ready reports that all pods are
// known. Only the pods of active have weight, not terminated and rejected ones.
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
			log.Warn("cannot update the cgroups of QoS classes; trying again", "err", err)
		}
	}
	return nil
}

// detectDriver reads the cgroup driver from the runtime, which overrides the configured one. It
// applies to containers in pods without cgroups, too. If the runtime does not report a driver, the
// configured one is used.
func (a *Agent) detectDriver(ctx context.Context, conn *Connection) error {
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
		a.log.Warn("the runtime does not report its cgroup driver; using the configured one", "driver", driver)
	case driver != configured:
		a.log.Warn("cgroupDriver differs from the runtime's; using the runtime's", "configured", configured, "runtime", driver)
	}
	return nil
}
