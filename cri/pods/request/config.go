package request

import (
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Config configures a Builder. The zero value is useful: a node without a name,
// address or name server, where all files are in the usual places.
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
	// Event records Kubernetes events; nil records none.
	Event func(ref v1.ObjectReference, eventtype, reason, message string)
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
	// SwapController tells that swap of cgroups is accounted; containers then
	// get no swap.
	SwapController bool
	// HugePageSizes are the sizes of huge pages that the node has, as runtimes
	// write them: "2MB", "1GB". Containers may use none of them.
	HugePageSizes []string
	// SingleProcessOOMKill leaves the other processes of a container alive when
	// the kernel kills one for lack of memory (cgroup v2 only).
	SingleProcessOOMKill bool
	// NoCPUQuota turns off the enforcement of CPU limits.
	NoCPUQuota bool
	// CPUQuotaPeriod is the period of CPU limits; zero means 100 ms.
	CPUQuotaPeriod time.Duration
	// SeccompDefault gives containers without a seccomp profile the runtime's
	// default one instead of none.
	SeccompDefault bool
	// SeccompRoot is the directory of Localhost seccomp profiles; zero means
	// /var/lib/kubelet/seccomp.
	SeccompRoot string
}

// DNS describes name resolution in pods.
type DNS struct {
	// ClusterServers are the cluster's name servers; none means that pods with
	// dnsPolicy ClusterFirst get the node's resolver, and an event.
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
	// NoHostResolver gives pods with dnsPolicy Default no name server at all.
	NoHostResolver bool
}

// Builder builds requests. Use New; it is safe for concurrent use.
type Builder struct {
	cfg         Config
	maskedPaths []string
}

// New checks the configuration and returns a Builder.
func New(cfg Config) (*Builder, error) {
	setDefaults(&cfg)
	if !filepath.IsAbs(cfg.LogRoot) {
		return nil, fmt.Errorf("request: Config.LogRoot is not absolute: %q", cfg.LogRoot)
	}
	return &Builder{cfg: cfg, maskedPaths: maskedPaths()}, nil
}

func setDefaults(cfg *Config) {
	if cfg.LogRoot == "" {
		cfg.LogRoot = "/var/log/pods"
	}
	if cfg.Node.CPUQuotaPeriod <= 0 {
		cfg.Node.CPUQuotaPeriod = 100 * time.Millisecond
	}
	if cfg.Node.SeccompRoot == "" {
		cfg.Node.SeccompRoot = "/var/lib/kubelet/seccomp"
	}
	if cfg.DNS.HostResolver == "" {
		cfg.DNS.HostResolver = "/etc/resolv.conf"
	}
	if cfg.DNS.HostsFile == "" {
		cfg.DNS.HostsFile = "/etc/hosts"
	}
	if cfg.Event == nil {
		cfg.Event = func(v1.ObjectReference, string, string, string) {}
	}
}
