package agent

import (
	"context"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/stats"
	kernel "github.com/podwright/podwright/examples/kubelet/cgroups"
	nodestatus "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/volume/usage"
)

func newSummary(in *inputs, conn *Connection, podCgroups *podCgroups, volumes volumes, l *lifecycle) (*summary.Provider, error) {
	reader, err := stats.New(stats.Config{FS: stats.Host(cgroupMount), Version: stats.Version(kernel.HostVersion())})
	if err != nil {
		return nil, err
	}
	k := &in.cfg.Kubelet
	proc := stats.Host("/proc")
	collected := stats.CollectorConfig{Owner: owner, Runtime: conn.Runtime, Proc: proc}
	cfg := summary.Config{
		NodeName: in.cfg.Flags.NodeName, Cgroups: reader, Proc: proc, Root: in.folders.root, Images: conn.Images.ImageFsInfo,
		Systems: map[string]string{statsapi.SystemContainerKubelet: ownCgroup(in.cfg), statsapi.SystemContainerMisc: k.SystemCgroups,
			statsapi.SystemContainerRuntime: in.cfg.Flags.RuntimeCgroups},
		Machine: describeMachine(),
		Pods:    l.list,
		Volume: func(ctx context.Context, pod *v1.Pod, name string) (string, bool) {
			return volumes.folder(ctx, in.folders, pod, name)
		},
		LogDir: func(namespace, name string, uid types.UID) string {
			return pods.LogDir(k.PodLogsDir, namespace, name, uid)
		},
		PodDir: in.folders.pod,
		Period: k.VolumeStatsAggPeriod.Duration,
		Logger: in.cfg.Logger,
	}
	source := "cri"
	if podCgroups != nil {
		source = "cgroups"
		tree := podCgroups.tree
		collected.Reader, collected.PodCgroups = reader, func() map[string]string { return podCgroupPaths(tree, l.list()) }
		cfg.Systems[statsapi.SystemContainerPods] = tree.Path(tree.Pods())
		for _, class := range cgroups.Classes() {
			cfg.Above = append(cfg.Above, tree.Path(tree.Class(class)))
		}
	}
	in.cfg.Metrics.Node.Measures(source)
	if cfg.Collector, err = stats.NewCollector(collected); err != nil {
		return nil, err
	}
	cfg.Meter = usage.New(usage.Config{Ask: volumes.csiUsage, Metrics: in.cfg.Metrics.Volumes.Measured()})
	return summary.New(cfg)
}

// ownCgroup returns the agent's cgroup: the configured one, else the kernel's, or "" if it is
// unknown.
func ownCgroup(cfg *Config) string {
	if cfg.Kubelet.KubeletCgroups != "" {
		return cfg.Kubelet.KubeletCgroups
	}
	cgroup, err := stats.OwnCgroup(os.DirFS("/proc"))
	if err != nil {
		cfg.Logger.Debug("cannot determine the agent's own cgroup", "err", err)
	}
	return cgroup
}

func podCgroupPaths(tree *cgroups.Tree, pods []*v1.Pod) map[string]string {
	out := map[string]string{}
	for _, pod := range pods {
		out[string(pod.UID)] = tree.Path(tree.Pod(pod))
	}
	return out
}

func describeMachine() summary.Machine {
	root := os.DirFS("/")
	versions, m := nodestatus.ReadVersions(root), summary.Machine{}
	m.Kernel, m.OS = versions.Kernel, versions.OSImage
	for file, to := range map[string]*string{
		"/proc/sys/kernel/random/boot_id": &m.BootID, "/etc/machine-id": &m.MachineID, "/sys/class/dmi/id/product_uuid": &m.SystemUUID,
	} {
		text, err := os.ReadFile(file)
		if err == nil {
			*to = strings.TrimSpace(string(text))
		}
	}
	return m
}
