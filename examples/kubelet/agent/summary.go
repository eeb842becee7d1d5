package agent

import (
	"context"
	"os"
	"path/filepath"
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

// newSummary tells what the node and its pods use.
func (n *node) newSummary() (*summary.Provider, error) {
	reader, err := stats.New(stats.Config{FS: stats.Host(cgroupMount), Version: stats.Version(kernel.HostVersion())})
	if err != nil {
		return nil, err
	}
	proc := stats.Host("/proc")
	collected := stats.CollectorConfig{Runtime: n.conn.Runtime, Proc: proc}
	cfg := summary.Config{
		NodeName: n.cfg.Flags.NodeName, Cgroups: reader, Proc: proc, Root: n.folders.root, Images: n.conn.Images.ImageFsInfo,
		Systems: map[string]string{statsapi.SystemContainerKubelet: n.ownCgroup(), statsapi.SystemContainerMisc: n.cfg.Kubelet.SystemCgroups,
			statsapi.SystemContainerRuntime: n.cfg.Flags.RuntimeCgroups},
		Machine: describeMachine(),
		Pods:    n.podList, Volume: n.volumeFolder,
		LogDir: func(namespace, name string, uid types.UID) string {
			return pods.LogDir(n.cfg.Kubelet.PodLogsDir, namespace, name, uid)
		},
		HostsFile: func(uid types.UID) string { return filepath.Join(n.folders.pod(uid), "etc-hosts") },
		Period:    n.cfg.Kubelet.VolumeStatsAggPeriod.Duration,
		Logger:    n.cfg.Logger,
	}
	source := "cri"
	if n.cgroups != nil {
		source = "cgroups"
		tree := n.cgroups.tree
		collected.Reader, collected.PodCgroups = reader, func() map[string]string { return n.podCgroups(tree) }
		cfg.Systems[statsapi.SystemContainerPods] = tree.Path(tree.Pods())
		for _, class := range cgroups.Classes() {
			cfg.Above = append(cfg.Above, tree.Path(tree.Class(class)))
		}
	}
	n.cfg.Metrics.Node.Measures(source)
	if cfg.Collector, err = stats.NewCollector(collected); err != nil {
		return nil, err
	}
	if cfg.Meter, err = usage.New(usage.Config{Ask: n.volumes.ask, Metrics: n.cfg.Metrics.Volumes.Measured()}); err != nil {
		return nil, err
	}
	return summary.New(cfg)
}

// ownCgroup is the agent's, by its configuration or else as the kernel has it; empty if it
// has none of its own.
func (n *node) ownCgroup() string {
	if n.cfg.Kubelet.KubeletCgroups != "" {
		return n.cfg.Kubelet.KubeletCgroups
	}
	cgroup, err := stats.OwnCgroup(os.DirFS("/proc"))
	if err != nil {
		n.cfg.Logger.Debug("the agent's own cgroup is not known", "err", err)
	}
	return cgroup
}

func (n *node) podList() []*v1.Pod {
	current := n.current()
	list := make([]*v1.Pod, 0, len(current))
	for _, pod := range current {
		list = append(list, pod)
	}
	return list
}

// podCgroups are those of the pods, by UID.
func (n *node) podCgroups(tree *cgroups.Tree) map[string]string {
	out := map[string]string{}
	for uid, pod := range n.current() {
		out[string(uid)] = tree.Path(tree.Pod(pod))
	}
	return out
}

// volumeFolder is that of a volume with files that is mounted. Folders of the machine, which a
// PersistentVolume may be, too, are not the pod's: nobody would want them to be walked.
func (n *node) volumeFolder(ctx context.Context, pod *v1.Pod, name string) (string, bool) {
	mounted, err := n.volumes.manager.Volume(ctx, pod, name)
	return mounted.Path, err == nil && n.folders.ofPod(pod.UID, mounted.Path)
}

// describeMachine names the machine for its metrics.
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
