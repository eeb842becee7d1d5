package request

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/fields"
)

// Config configures a Builder. The zero value describes a node without a name, addresses or name
// servers, and with its files in the default paths. If a pod requires a part that is not
// configured, requests for that pod fail.
type Config struct {
	// Node describes the node to containers.
	Node Node
	// DNS configures name resolution in pods.
	DNS DNS
	// Owner labels sandboxes and containers. The zero Owner sets no label.
	Owner cri.Owner
	// LogRoot is the directory with one log directory per pod. Default: /var/log/pods.
	LogRoot string
	// CgroupParent returns the parent cgroup of a pod's sandbox. Optional: without it the runtime
	// chooses.
	CgroupParent func(pod *v1.Pod) string

	// Inputs are the optional sources of variables, volumes and devices.
	Inputs

	// readFile reads the node's resolver and hosts file. Default: up to 10 MiB of the file.
	readFile func(path string) ([]byte, error)
	// Event records Kubernetes events. Optional.
	Event podwright.EventFunc
}

// Inputs are the sources of requests besides the pod's spec. All are optional.
type Inputs struct {
	// ConfigMaps, Secrets and Services are the sources of environment variables. Without them
	// containers that refer to a config map or secret fail, unless the reference is optional, and
	// containers get no service variables.
	ConfigMaps ConfigMaps
	Secrets    Secrets
	Services   Services
	// Volumes returns the paths of volumes. Without it containers with volumes fail, except for
	// image volumes.
	Volumes Volumes
	// SubPaths prepares parts of volumes. Without it containers with subPath fail, except on
	// image volumes.
	SubPaths SubPaths

	// NodeIPs returns the node's addresses while Node.IPs is empty, for agents that start before
	// the node's network. Without it, or if it returns none, the addresses are unavailable.
	NodeIPs func() []string
	// Devices returns the devices of a container from device plugins and resource claims. Without
	// it containers that require such devices fail.
	Devices func(ctx context.Context, pod *v1.Pod, container *v1.Container) (Devices, error)
	// UserNamespace returns the user namespace of a pod with hostUsers false. It must return the
	// same value at each call for a pod. Without it such pods get no sandbox.
	UserNamespace func(pod *v1.Pod) (UserNamespace, error)
	// HandlerFeatures returns the features of a pod's runtime handler. Without it no optional
	// feature is used.
	HandlerFeatures func(pod *v1.Pod) HandlerFeatures
	// ExclusiveCPUs reports whether a container, or any container of the pod if container is nil,
	// has exclusive CPUs. The CPU limit is then not enforced. Without it no container has
	// exclusive CPUs.
	ExclusiveCPUs func(pod *v1.Pod, container *v1.Container) bool
	// ExtraGroups returns further groups that own volumes of a pod, besides the groups in its
	// spec.
	ExtraGroups func(pod *v1.Pod) []int64
}

// Node describes the node to containers.
type Node struct {
	// Name is the value of spec.nodeName for pods without a node name.
	Name string
	// IPs are the node's addresses, the primary one first. They are used as status.hostIP and as
	// the addresses of host-network pods.
	IPs []string
	// MemoryCapacity in bytes scales the OOM score of Burstable containers. Zero gives them the
	// least protected score.
	MemoryCapacity int64
	// CgroupV2 selects the unified cgroup hierarchy.
	CgroupV2 bool
	// Allocatable are the node's resources for pods, which the downward API reports to containers
	// without a limit. A missing resource counts as 0.
	Allocatable v1.ResourceList
	// SwapController is true if cgroups account for swap. Containers then get a swap limit, see
	// LimitedSwap.
	SwapController bool
	// LimitedSwap gives Burstable containers a share of SwapCapacity in proportion to their part
	// of the node's memory (KEP-2400, cgroup v2 only). Without it no container gets swap.
	LimitedSwap bool
	// SwapCapacity in bytes is the swap that LimitedSwap distributes.
	SwapCapacity int64
	// HugePageSizes are the node's sizes of huge pages in the form of runtimes, such as "2MB" and
	// "1GB". Each container gets a limit for each size.
	HugePageSizes []string
	// MemoryQoS throttles containers that approach their memory limit and protects their memory
	// request (KEP-2570, cgroup v2 only).
	MemoryQoS MemoryQoS
	// SELinux is true if the node enforces SELinux. Files that the agent makes for a pod are then
	// relabelled.
	SELinux bool
	// SingleProcessOOMKill keeps the remaining processes of a container running after the kernel
	// kills one for lack of memory (cgroup v2 only).
	SingleProcessOOMKill bool
	// NoCPUQuota disables the enforcement of CPU limits.
	NoCPUQuota bool
	// CPUQuotaPeriod is the period of CPU limits, from 1 ms to 1 s. Default: 100 ms.
	CPUQuotaPeriod time.Duration
	// SeccompDefault selects the runtime's default seccomp profile for containers without a
	// profile, instead of none.
	SeccompDefault bool
	// SeccompRoot is the directory of Localhost seccomp profiles. Default:
	// /var/lib/kubelet/seccomp.
	SeccompRoot string
}

// MemoryQoS configures the soft limits of memory.
type MemoryQoS struct {
	// Enabled sets memory.high for containers whose memory request differs from their limit.
	Enabled bool
	// ThrottlingFactor is the position of memory.high between request (0) and limit (1). Default:
	// 0.9.
	ThrottlingFactor float64
	// TieredReservation protects the request: with memory.min in Guaranteed pods, with memory.low
	// in Burstable ones.
	TieredReservation bool
}

// DNS configures name resolution in pods.
type DNS struct {
	// ClusterServers are the cluster's name servers. Without them pods with dnsPolicy
	// ClusterFirst get the node's resolver, with an event on the pod and the node.
	ClusterServers []string
	// ClusterDomain is the cluster's domain. Optional: without it pods get no search domains for
	// services, and the domain of a pod with a subdomain is "SUBDOMAIN.NAMESPACE.svc.".
	ClusterDomain string
	// HostResolver is the resolv.conf of pods with dnsPolicy Default. Default: /etc/resolv.conf.
	HostResolver string
	// HostsFile is the source of /etc/hosts in host-network pods. Default: /etc/hosts.
	HostsFile string
	// NoHostResolver gives pods with dnsPolicy Default only a loopback name server.
	NoHostResolver bool
}

// Builder builds requests. It is safe for concurrent use. Use New.
type Builder struct {
	cfg         Config
	maskedPaths []string
}

// New validates the configuration and returns a Builder.
func New(cfg Config) (*Builder, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Builder{cfg: cfg, maskedPaths: maskedPaths("/sys/devices/system/cpu")}, nil
}

func (c *Config) complete() error {
	f := fields.Of("request: Config")
	fields.Default(&c.LogRoot, "/var/log/pods")
	fields.Default(&c.Node.SeccompRoot, "/var/lib/kubelet/seccomp")
	fields.Default(&c.DNS.HostResolver, defaultResolver)
	fields.Default(&c.DNS.HostsFile, "/etc/hosts")
	fields.Number(f, "Node.MemoryCapacity", &c.Node.MemoryCapacity, 0)
	fields.Number(f, "Node.SwapCapacity", &c.Node.SwapCapacity, 0)
	fields.Default(&c.Node.CPUQuotaPeriod, 100*time.Millisecond)
	fields.Default(&c.Node.MemoryQoS.ThrottlingFactor, 0.9)
	fields.Default(&c.readFile, func(path string) ([]byte, error) { return readFile(os.Open, path, maxNodeFile) })
	fields.Default(&c.HandlerFeatures, func(*v1.Pod) HandlerFeatures { return HandlerFeatures{} })
	fields.Default(&c.ExclusiveCPUs, func(*v1.Pod, *v1.Container) bool { return false })
	fields.Default(&c.ExtraGroups, func(*v1.Pod) []int64 { return nil })
	fields.Default(&c.Event, func(v1.ObjectReference, string, string, string) {})
	f.Absolute("LogRoot", c.LogRoot)
	if c.Node.CPUQuotaPeriod < time.Millisecond || c.Node.CPUQuotaPeriod > time.Second {
		f.Refuse("Node.CPUQuotaPeriod is not between 1ms and 1s: %v", c.Node.CPUQuotaPeriod)
	}
	if c.Node.MemoryQoS.ThrottlingFactor <= 0 || c.Node.MemoryQoS.ThrottlingFactor > 1 {
		f.Refuse("Node.MemoryQoS.ThrottlingFactor is not between 0 and 1: %v", c.Node.MemoryQoS.ThrottlingFactor)
	}
	return f.Err()
}

// maxNodeFile bounds the size of a node's file.
const maxNodeFile = 10 << 20

// readFile reads a file of at most limit bytes. A larger file is an error.
func readFile(open func(string) (*os.File, error), path string, limit int64) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(content)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return content, err
}
