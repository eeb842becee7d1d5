package agent

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/selinux"
)

const cgroupMount = "/sys/fs/cgroup"

// describeNode returns the properties of the node that containers depend on, with the settings of
// the configuration. A property that cannot be read keeps its zero value, which is the safe choice
// for each field. It does not set Allocatable.
func describeNode(cfg config.Config) pods.Node {
	k, root := &cfg.Kubelet, cfg.Flags.RootDir
	return pods.Node{
		Name:           cfg.Flags.NodeName,
		MemoryCapacity: meminfo("/proc/meminfo", "MemTotal:"),
		CgroupV2:       exists(filepath.Join(cgroupMount, "cgroup.controllers")),
		SwapController: swapController(cgroupMount),
		LimitedSwap:    k.MemorySwap.SwapBehavior == config.LimitedSwap,
		SwapCapacity:   meminfo("/proc/meminfo", "SwapTotal:"),
		HugePageSizes:  hugePageSizes("/sys/kernel/mm/hugepages"),
		SeccompRoot:    filepath.Join(root, "seccomp"),
		SELinux:        selinux.Enabled(selinux.Mounted),

		NoCPUQuota:           !*k.CPUCFSQuota,
		CPUQuotaPeriod:       k.CPUCFSQuotaPeriod.Duration,
		SeccompDefault:       *k.SeccompDefault,
		SingleProcessOOMKill: k.SingleProcessOOMKill != nil && *k.SingleProcessOOMKill,
	}
}

// exists reports whether a file exists. It returns false if that cannot be determined.
func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// podHostIPs returns the addresses of the host for pods on the host network, status.hostIPs and the
// downward API. The Node's addresses are used in its order. Before the first read of the Node they
// are the addresses of --node-ip, or the machine's first address, because a Node without --node-ip
// reports one. Without an API server, pods on a machine with both families get both.
func podHostIPs(node *v1.Node, given []netip.Addr, standalone bool) []string {
	if node != nil {
		if ips := reportedIPs(node.Status.Addresses); len(ips) > 0 {
			return ips
		}
	}
	var out []string
	for _, ip := range given {
		if !ip.IsUnspecified() {
			out = append(out, ip.String())
		}
	}
	if len(out) > 0 {
		return out
	}
	out = nodeIPs()
	if !standalone {
		out = out[:min(len(out), 1)]
	}
	return out
}

// reportedIPs returns the first address of each family in a Node's addresses, internal ones before
// external ones. The family of the first one is the primary one.
func reportedIPs(addresses []v1.NodeAddress) (out []string) {
	var first netip.Addr
	for _, kind := range []v1.NodeAddressType{v1.NodeInternalIP, v1.NodeExternalIP} {
		for _, a := range addresses {
			ip, err := netip.ParseAddr(a.Address)
			switch {
			case a.Type != kind || err != nil:
			case !first.IsValid():
				first, out = ip, append(out, a.Address)
			case len(out) == 1 && ip.Is4() != first.Is4():
				out = append(out, a.Address)
			}
		}
	}
	return out
}

// nodeIPs returns the machine's first address of each family, IPv4 first.
func nodeIPs() []string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var v4, v6 []string
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		switch {
		case !ok || !network.IP.IsGlobalUnicast():
		case network.IP.To4() != nil:
			v4 = append(v4, network.IP.String())
		default:
			v6 = append(v6, network.IP.String())
		}
	}
	return append(v4[:min(len(v4), 1)], v6[:min(len(v6), 1)]...)
}

// addresses caches the node's addresses. A lookup lists all interfaces of the host and of all
// pods, and each pod status needs the addresses.
type addresses struct {
	list func() []string

	mu   sync.Mutex
	last []string
	at   time.Time
}

const fresh = 5 * time.Second

func (a *addresses) get() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.last) == 0 || time.Since(a.at) >= fresh {
		a.last, a.at = a.list(), time.Now()
	}
	return slices.Clone(a.last)
}

// meminfo reads a field of /proc/meminfo, such as MemTotal:, in bytes.
func meminfo(file, name string) int64 {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return 0
		}
		return kib * 1024
	}
	return 0
}

// dockerConfigs returns the files that may contain the node's registry credentials, most preferred
// first.
func dockerConfigs(root, home string) []string {
	files := []string{filepath.Join(root, "config.json")}
	if home != "" {
		files = append(files, filepath.Join(home, ".docker", "config.json"))
	}
	files = append(files, "/.docker/config.json", filepath.Join(root, ".dockercfg"))
	if home != "" {
		files = append(files, filepath.Join(home, ".dockercfg"))
	}
	return append(files, "/.dockercfg")
}

// swapController reports whether the kernel accounts the swap of cgroups. In the unified hierarchy
// the files exist in all cgroups but the root.
func swapController(root string) bool {
	for _, file := range []string{"memory/memory.memsw.limit_in_bytes", "*/memory.swap.max"} {
		if found, err := filepath.Glob(filepath.Join(root, file)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// hugePageSizes lists the sizes of the kernel's folders, such as hugepages-2048kB, in the
// largest unit that fits.
func hugePageSizes(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var sizes []string
	for _, e := range entries {
		text := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "hugepages-"), "kB")
		size, err := strconv.ParseUint(text, 10, 64)
		if err != nil || size == 0 {
			continue
		}
		units := []string{"KB", "MB", "GB"}
		for len(units) > 1 && size%1024 == 0 {
			size, units = size/1024, units[1:]
		}
		sizes = append(sizes, strconv.FormatUint(size, 10)+units[0])
	}
	return sizes
}
