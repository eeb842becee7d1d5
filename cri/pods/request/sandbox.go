package request

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
)

// Sandbox is the configuration of a sandbox that is about to be made. An error is
// about the pod as a whole, and names the field. Events (MissingClusterDNS,
// DNSConfigForming) tell where the pod does not get what it asks for.
func (b *Builder) Sandbox(pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	return b.sandbox(pod, attempt, b.cfg.Event)
}

// SandboxAgain is the configuration of a sandbox that is there, for another container
// in it: what Sandbox returns for the same attempt. It records no events.
func (b *Builder) SandboxAgain(pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	return b.sandbox(pod, attempt, func(v1.ObjectReference, string, string, string) {})
}

func (b *Builder) sandbox(pod *v1.Pod, attempt uint32, event podwright.EventFunc) (*runtimeapi.PodSandboxConfig, error) {
	if err := checkPodPorts(pod); err != nil {
		return nil, err
	}
	security, err := b.sandboxSecurity(pod)
	if err != nil {
		return nil, err
	}
	dns, err := b.dnsConfig(pod, event)
	if err != nil {
		return nil, err
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt,
		},
		LogDirectory: LogDir(b.cfg.LogRoot, pod.Namespace, pod.Name, pod.UID),
		DnsConfig:    dns,
		PortMappings: portMappings(pod),
		Labels:       sandboxLabels(pod),
		Annotations:  pod.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: security,
			Sysctls:         sysctls(pod),
			Resources:       b.SandboxResources(pod),
			Overhead:        b.Overhead(pod),
		},
	}
	if !pod.Spec.HostNetwork {
		if config.Hostname, err = hostname(pod, b.cfg.DNS.ClusterDomain); err != nil {
			return nil, err
		}
	}
	if b.cfg.CgroupParent != nil {
		config.Linux.CgroupParent = b.cfg.CgroupParent(pod)
	}
	return config, nil
}

// PodIPs are the addresses that containers of a pod are told: of those that its
// sandbox has, one per family, that of the node's primary address first; for a
// pod on the host network the node's own.
func (b *Builder) PodIPs(pod *v1.Pod, observed []string) []string {
	if pod.Spec.HostNetwork {
		return slices.Clone(b.nodeIPs())
	}
	return podfacts.OrderIPs(observed, b.nodeIPs())
}

// nodeIPs are the node's addresses, as far as they are known by now.
func (b *Builder) nodeIPs() []string {
	if len(b.cfg.Node.IPs) == 0 && b.cfg.NodeIPs != nil {
		return b.cfg.NodeIPs()
	}
	return b.cfg.Node.IPs
}

// sysctls writes the names with dots, the form that all runtimes know.
func sysctls(pod *v1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	var out map[string]string
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		out = put(out, dotted(s.Name), s.Value)
	}
	return out
}

// dotted turns net/ipv4/conf/eth0.1/x into net.ipv4.conf.eth0/1.x: the first
// separator tells which of the two it is, the other one stands for itself.
func dotted(name string) string {
	i := strings.IndexAny(name, "./")
	if i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}
