package request

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sandbox is the configuration of a pod's sandbox. It is generated anew for each
// container that is created, always the same for the same attempt.
func (b *Builder) Sandbox(pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	security, err := sandboxSecurity(pod)
	if err != nil {
		return nil, err
	}
	dns, err := b.dnsConfig(pod)
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
			Resources:       sandboxResources(pod, b.cfg.Node),
			Overhead:        overheadResources(pod, b.cfg.Node),
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

// sysctls writes the names with dots, the form that all runtimes know.
func sysctls(pod *v1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil || len(pod.Spec.SecurityContext.Sysctls) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		out[dotted(s.Name)] = s.Value
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

const (
	maxHostname = 63
	maxFQDN     = 64
)

// hostname is what a pod with its own network calls itself.
func hostname(pod *v1.Pod, clusterDomain string) (string, error) {
	host, domain, err := hostAndDomain(pod, clusterDomain)
	if err != nil || domain == "" || !isTrue(pod.Spec.SetHostnameAsFQDN) {
		return host, err
	}
	fqdn := host + "." + domain
	if len(fqdn) > maxFQDN {
		return "", fmt.Errorf("setHostnameAsFQDN: %q is longer than %d characters", fqdn, maxFQDN)
	}
	return fqdn, nil
}

// hostAndDomain are the two parts of a pod's full name; the domain may be "".
func hostAndDomain(pod *v1.Pod, clusterDomain string) (host, domain string, err error) {
	if o := pod.Spec.HostnameOverride; o != nil && *o != "" {
		return *o, "", nil
	}
	host = pod.Name
	if pod.Spec.Hostname != "" {
		host = pod.Spec.Hostname
	}
	if len(host) > maxHostname {
		host = strings.TrimRight(host[:maxHostname], "-.")
		if host == "" {
			return "", "", fmt.Errorf("pod name %q makes no hostname", pod.Name)
		}
	}
	if pod.Spec.Subdomain != "" && clusterDomain != "" {
		domain = pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + clusterDomain
	}
	return host, domain, nil
}

// portMappings are the host ports of the regular containers. A port that is
// named or keyed like one before it is left out.
func portMappings(pod *v1.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	seen := map[string]bool{}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		for _, port := range c.Ports {
			key := portKey(c.Name, port)
			if seen[key] {
				continue
			}
			seen[key] = true
			out = append(out, &runtimeapi.PortMapping{
				Protocol:      protocol(port.Protocol),
				ContainerPort: port.ContainerPort,
				HostPort:      port.HostPort,
				HostIp:        port.HostIP,
			})
		}
	}
	return out
}

func portKey(container string, port v1.ContainerPort) string {
	if port.Name != "" {
		return container + "-" + port.Name
	}
	family := "any"
	if port.HostIP != "" {
		family = "v4"
		if isIPv6(port.HostIP) {
			family = "v6"
		}
	}
	return strings.Join([]string{container, family, string(port.Protocol), port.HostIP,
		strconv.Itoa(int(port.HostPort)), strconv.Itoa(int(port.ContainerPort))}, "-")
}

func protocol(p v1.Protocol) runtimeapi.Protocol {
	return runtimeapi.Protocol(runtimeapi.Protocol_value[string(p)]) // TCP unless known
}

// PodIPs are the addresses that containers of a pod are told: of those that its
// sandbox has, one per family, that of the node's primary address first; for a
// pod on the host network the node's own.
func (b *Builder) PodIPs(pod *v1.Pod, observed []string) []string {
	if pod.Spec.HostNetwork {
		return slices.Clone(b.cfg.Node.IPs)
	}
	return orderIPs(observed, b.cfg.Node.IPs)
}
