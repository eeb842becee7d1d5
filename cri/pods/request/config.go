package request

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
)

// Config configures a Builder. The zero value is useful: a node without a name,
// address or name server, where all files are in the usual places. What a pod
// asks for and the configuration does not provide for is an error of that pod.
type Config struct {
	// Node is what pods are told about the node and given of it.
	Node Node
	// DNS is what pods are told about name servers.
	DNS DNS
	// LogRoot holds a directory of logs per pod; zero means /var/log/pods.
	LogRoot string
	// CgroupParent returns the cgroup in which a pod's sandbox is put; nil
	// means the runtime's default.
	CgroupParent func(pod *v1.Pod) string

	// Inputs are where the rest comes from.
	Inputs

	// readFile reads the node's resolver and hosts file; nil reads at most
	// 10 MiB of the file.
	readFile func(path string) ([]byte, error)
	// Event records Kubernetes events; nil records none.
	Event podwright.EventFunc
}

// Inputs are the sources outside of the pod's spec that requests are built from.
// All are optional.
type Inputs struct {
	// ConfigMaps, Secrets and Services are where environment variables come
	// from. Nil means that the node has none: containers that refer to a config
	// map or a secret fail, unless that is optional, and none is told of
	// services.
	ConfigMaps ConfigMaps
	Secrets    Secrets
	Services   Services
	// Volumes tells where volumes are; nil means that containers with volumes
	// other than images fail.
	Volumes Volumes
	// SubPaths gives containers a part of a volume; nil means that containers
	// with subPath fail, except on image volumes.
	SubPaths SubPaths

	// NodeIPs returns the node's addresses as long as Node.IPs is empty, for agents
	// that start before the node's network; nil means that they are not known.
	NodeIPs func() []string
	// Devices returns what device plugins and resource claims give to a
	// container; nil means that containers that ask for such things fail.
	Devices func(ctx context.Context, pod *v1.Pod, container *v1.Container) (Devices, error)
	// UserNamespace returns the users of a pod with hostUsers false, the same
	// at each call for one pod; nil means that such pods get no sandbox.
	UserNamespace func(pod *v1.Pod) (UserNamespace, error)
	// HandlerFeatures returns what the runtime handler of a pod can do; nil
	// means nothing optional.
	HandlerFeatures func(pod *v1.Pod) HandlerFeatures
	// ExclusiveCPUs tells whether a container, or any container of the pod if
	// container is nil, has CPUs for itself. Its CPU limit is not enforced then.
	// Nil means that none has.
	ExclusiveCPUs func(pod *v1.Pod, container *v1.Container) bool
	// ExtraGroups returns groups that own volumes of a pod, beside those of its
	// spec; nil means none.
	ExtraGroups func(pod *v1.Pod) []int64
}

// Node describes the node as far as containers depend on it.
type Node struct {
	// Name is spec.nodeName for pods that do not name their node.
	Name string
	// IPs are the node's addresses, the primary one first: status.hostIP, and
	// the addresses of host-network pods.
	IPs []string
	// MemoryCapacity in bytes scales the OOM score of Burstable containers;
	// zero gives them the least protected score.
	MemoryCapacity int64
	// CgroupV2 tells that the node uses the unified cgroup hierarchy.
	CgroupV2 bool
	// Allocatable is what the node has for pods: what containers without a
	// limit are told is theirs. What is missing counts as 0.
	Allocatable v1.ResourceList
	// SwapController tells that swap of cgroups is accounted; containers then
	// get as much as LimitedSwap says.
	SwapController bool
	// LimitedSwap gives Burstable containers a share of SwapCapacity, as large
	// as their part of the node's memory (KEP-2400, cgroup v2 only). False means
	// that no container gets swap.
	LimitedSwap bool
	// SwapCapacity in bytes is what LimitedSwap shares out.
	SwapCapacity int64
	// HugePageSizes are the sizes of huge pages that the node has, as runtimes
	// write them: "2MB", "1GB". Containers may use them as far as they say.
	HugePageSizes []string
	// MemoryQoS slows down containers that near their memory limit and protects
	// what they asked for (KEP-2570, cgroup v2 only).
	MemoryQoS MemoryQoS
	// SELinux tells that the node enforces SELinux: files that the agent makes
	// for a pod are relabelled.
	SELinux bool
	// SingleProcessOOMKill leaves the other processes of a container alive when
	// the kernel kills one for lack of memory (cgroup v2 only).
	SingleProcessOOMKill bool
	// NoCPUQuota turns off the enforcement of CPU limits.
	NoCPUQuota bool
	// CPUQuotaPeriod is the period of CPU limits, from 1 ms to 1 s; zero means
	// 100 ms.
	CPUQuotaPeriod time.Duration
	// SeccompDefault gives containers without a seccomp profile the runtime's
	// default one instead of none.
	SeccompDefault bool
	// SeccompRoot is the directory of Localhost seccomp profiles; zero means
	// /var/lib/kubelet/seccomp.
	SeccompRoot string
}

// MemoryQoS configures the soft limits of memory.
type MemoryQoS struct {
	// Enabled sets memory.high of containers whose memory request is not their
	// limit.
	Enabled bool
	// ThrottlingFactor says where between request and limit memory.high is; zero
	// means 0.9.
	ThrottlingFactor float64
	// TieredReservation protects the request: of Guaranteed pods by memory.min,
	// of Burstable ones by memory.low.
	TieredReservation bool
}

// DNS describes name resolution in pods.
type DNS struct {
	// ClusterServers are the cluster's name servers; none means that pods with
	// dnsPolicy ClusterFirst get the node's resolver, and an event, as the node does.
	ClusterServers []string
	// ClusterDomain is the cluster's domain; zero means no search domains for
	// services and no pod domains.
	ClusterDomain string
	// HostResolver is the resolv.conf of pods with dnsPolicy Default; zero means
	// /etc/resolv.conf.
	HostResolver string
	// HostsFile is what host-network pods get as /etc/hosts; zero means
	// /etc/hosts.
	HostsFile string
	// NoHostResolver gives pods with dnsPolicy Default no name server but
	// themselves.
	NoHostResolver bool
}

// Builder builds requests. Use New; it is safe for concurrent use.
type Builder struct {
	cfg         Config
	maskedPaths []string
}

// New checks the configuration and returns a Builder.
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

// maxNodeFile bounds the files of the node that are read.
const maxNodeFile = 10 << 20

// readFile reads a file of at most limit bytes; a larger one is an error.
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
